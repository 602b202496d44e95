# Three identities, each with what it needs and no more. None of them has a key.

# The workers, and the machine on which the template's launcher makes the job.
resource "google_service_account" "worker" {
  account_id   = "${var.name}-worker"
  display_name = "Dataflow workers of corpusmill"

  depends_on = [google_project_service.required]
}

# Submits jobs, from a template or from a checkout.
resource "google_service_account" "launcher" {
  account_id   = "${var.name}-launcher"
  display_name = "Submits Dataflow jobs of corpusmill"

  depends_on = [google_project_service.required]
}

# Builds images.
resource "google_service_account" "builder" {
  account_id   = "${var.name}-builder"
  display_name = "Builds images of corpusmill"

  depends_on = [google_project_service.required]
}

locals {
  worker   = google_service_account.worker.member
  launcher = google_service_account.launcher.member
  builder  = google_service_account.builder.member

  # The launcher lists and probes the input, and writes the plan, when a job is submitted from a
  # checkout. The template's launcher does the same as the worker.
  bucket_roles = {
    worker_data        = [google_storage_bucket.data.name, "roles/storage.objectUser", local.worker]
    worker_temporary   = [google_storage_bucket.temporary.name, "roles/storage.objectUser", local.worker]
    launcher_data      = [google_storage_bucket.data.name, "roles/storage.objectUser", local.launcher]
    launcher_temporary = [google_storage_bucket.temporary.name, "roles/storage.objectUser", local.launcher]
    # The source is uploaded there.
    builder_temporary = [google_storage_bucket.temporary.name, "roles/storage.objectViewer", local.builder]
  }

  project_roles = {
    worker   = ["roles/dataflow.worker", local.worker]
    launcher = ["roles/dataflow.developer", local.launcher]
    builder  = ["roles/logging.logWriter", local.builder]
  }

  readers = { worker = local.worker, launcher = local.launcher }
}

resource "google_project_iam_member" "roles" {
  for_each = local.project_roles

  project = var.project
  role    = each.value[0]
  member  = each.value[1]
}

resource "google_storage_bucket_iam_member" "roles" {
  for_each = local.bucket_roles

  bucket = each.value[0]
  role   = each.value[1]
  member = each.value[2]
}

resource "google_storage_bucket_iam_member" "inputs" {
  for_each = {
    for pair in setproduct(var.input_buckets, keys(local.readers)) : "${pair[0]}/${pair[1]}" => pair
  }

  bucket = each.value[0]
  role   = "roles/storage.objectViewer"
  member = local.readers[each.value[1]]
}

resource "google_artifact_registry_repository_iam_member" "roles" {
  for_each = {
    worker  = ["roles/artifactregistry.reader", local.worker]
    builder = ["roles/artifactregistry.writer", local.builder]
  }

  location   = google_artifact_registry_repository.images.location
  repository = google_artifact_registry_repository.images.name
  role       = each.value[0]
  member     = each.value[1]
}

# Jobs run as the worker.
resource "google_service_account_iam_member" "launcher_uses_worker" {
  service_account_id = google_service_account.worker.name
  role               = "roles/iam.serviceAccountUser"
  member             = local.launcher
}

resource "google_service_account_iam_member" "submitters" {
  for_each = var.submitters

  service_account_id = google_service_account.launcher.name
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = each.value
}
