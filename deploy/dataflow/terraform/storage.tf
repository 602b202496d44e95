# Tokenizers, data sets, and the template's specification.
resource "google_storage_bucket" "data" {
  name                        = "${var.project}-${var.name}-data"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 7
    }
  }

  depends_on = [google_project_service.required]
}

# What Beam stages, and the temporary files of runs, which are several times as large as the corpus.
resource "google_storage_bucket" "temporary" {
  name                        = "${var.project}-${var.name}-temporary"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = true

  # By default deleted files are kept, and billed, for seven days.
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age = var.temporary_days
    }
  }

  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 1
    }
  }

  depends_on = [google_project_service.required]
}
