"""All objects of a bucket of an emulator, read and written beside its proxy."""

from functools import cache
from urllib.parse import quote

import boto3
import requests

from tests.tools.object_stores import Bucket


def read_objects(bucket: Bucket) -> dict[str, bytes]:
    """Return {name: content} of all objects."""
    if bucket.scheme == "s3":
        client, place = _s3(bucket.proxy.target), {"Bucket": bucket.name}
        pages = client.get_paginator("list_objects_v2").paginate(**place)
        names = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return {name: client.get_object(**place, Key=name)["Body"].read() for name in names}
    objects, query = f"{_google(bucket)}/o", {"maxResults": "10000"}
    items = requests.get(objects, query, timeout=60).json().get("items", ())
    return {
        item["name"]: requests.get(
            f"{objects}/{quote(item['name'], safe='')}", {"alt": "media"}, timeout=60
        ).content
        for item in items
    }


def write_objects(bucket: Bucket, contents: dict[str, bytes]) -> None:
    """Make the objects of a bucket what `read_objects` has read."""
    earlier = read_objects(bucket)
    for name in earlier.keys() - contents.keys():
        if bucket.scheme == "s3":
            _s3(bucket.proxy.target).delete_object(Bucket=bucket.name, Key=name)
        else:
            requests.delete(f"{_google(bucket)}/o/{quote(name, safe='')}", timeout=60)
    for name, content in contents.items():
        if earlier.get(name) == content:
            continue
        if bucket.scheme == "s3":
            _s3(bucket.proxy.target).put_object(Bucket=bucket.name, Key=name, Body=content)
        else:
            place = f"{_google(bucket).replace('/storage/', '/upload/storage/')}/o"
            query = {"uploadType": "media", "name": name}
            requests.post(place, params=query, data=content, timeout=60)


@cache
def _s3(target: str) -> "boto3.client":
    return boto3.client("s3", endpoint_url=f"http://{target}")


def _google(bucket: Bucket) -> str:
    return f"http://{bucket.proxy.target}/storage/v1/b/{bucket.name}"
