import {parquetReadObjects, asyncBufferFromFile} from "hyparquet";
import {compressors} from "hyparquet-compressors";
for (const path of process.argv.slice(2)) {
  const rows = await parquetReadObjects({file: await asyncBufferFromFile(path), compressors});
  const columns = {};
  for (const row of rows) for (const [name, value] of Object.entries(row)) (columns[name] ??= []).push(ArrayBuffer.isView(value) ? [...value] : value);
  console.log(JSON.stringify(columns, (_, value) => typeof value === "bigint" ? String(value) : value));
}
