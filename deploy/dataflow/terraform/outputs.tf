output "settings" {
  description = "What the scripts need, as lines for a shell. scripts/01_create_infrastructure.sh stores them."
  value = join("", [for name, value in {
    PROJECT          = var.project
    REGION           = var.region
    NAME             = var.name
    DATA_BUCKET      = google_storage_bucket.data.name
    TEMPORARY_BUCKET = google_storage_bucket.temporary.name
    IMAGE            = "${var.region}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.images.repository_id}/corpusmill"
    TEMPLATE         = "gs://${google_storage_bucket.data.name}/templates/corpusmill.json"
    WORKER           = google_service_account.worker.email
    LAUNCHER         = google_service_account.launcher.email
    BUILDER          = google_service_account.builder.id
    SUBNETWORK       = "regions/${var.region}/subnetworks/${google_compute_subnetwork.workers.name}"
  } : "${name}=${value}\n"])
}
