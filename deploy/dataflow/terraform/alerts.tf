# Alerts on the jobs whose names begin with `name`. docs/how-to/dataflow.md has a section for each.

locals {
  jobs    = "monitored_resource=\"dataflow_job\", job_name=~\"${var.name}-.*\""
  counter = "dataflow_googleapis_com:job_user_counter"
  by_job  = "by (job_name, job_id)"
  # The counters that move while tasks are prepared and shards are built.
  progress = "${local.counter}{${local.jobs}, metric_name=~\"read.bytes|build.passes|write.rows\"}"
  # Jobs that have run for a while, and still have workers.
  long_running = join(" ", [
    "(max ${local.by_job} (dataflow_googleapis_com:job_elapsed_time{${local.jobs}})",
    "> ${var.stall_minutes * 60}",
    "and max ${local.by_job} (dataflow_googleapis_com:job_current_num_vcpus{${local.jobs}}) > 0)",
  ])
  channels = [for channel in google_monitoring_notification_channel.email : channel.id]
  runbook  = "See the section \"%s\" of docs/how-to/dataflow.md in the sources of corpusmill."
}

resource "google_monitoring_notification_channel" "email" {
  for_each = var.notification_emails

  display_name = "${var.name}: ${each.value}"
  type         = "email"
  labels       = { email_address = each.value }

  depends_on = [google_project_service.required]
}

resource "google_monitoring_alert_policy" "job_failed" {
  display_name          = "${var.name}: job failed"
  combiner              = "OR"
  severity              = "CRITICAL"
  notification_channels = local.channels

  conditions {
    display_name = "Dataflow says that a job has failed"

    condition_threshold {
      filter = join(" AND ", [
        "resource.type = \"dataflow_job\"",
        "resource.labels.job_name = starts_with(\"${var.name}-\")",
        "metric.type = \"dataflow.googleapis.com/job/is_failed\"",
      ])
      comparison      = "COMPARISON_GT"
      threshold_value = 0
      duration        = "0s"

      aggregations {
        alignment_period   = "60s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = format(local.runbook, "Job failed")
  }

  depends_on = [google_project_service.required]
}

resource "google_monitoring_alert_policy" "rejects" {
  display_name          = "${var.name}: many rejects"
  combiner              = "OR"
  severity              = "WARNING"
  notification_channels = local.channels

  conditions {
    display_name = "rejects exceed ${var.reject_share * 100} percent of the documents"

    condition_prometheus_query_language {
      query = join(" ", [
        "sum ${local.by_job} (${local.counter}{${local.jobs}, metric_name=\"read.rejects\"})",
        "> ${var.reject_share} *",
        "sum ${local.by_job} (${local.counter}{${local.jobs}, metric_name=\"tokenize.documents\"})",
      ])
      duration            = "300s"
      evaluation_interval = "60s"
    }
  }

  documentation {
    content = format(local.runbook, "Many rejects")
  }

  depends_on = [google_project_service.required]
}

resource "google_monitoring_alert_policy" "stalled" {
  display_name          = "${var.name}: no progress"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = local.channels

  conditions {
    display_name = "no counter has moved for ${var.stall_minutes} minutes"

    condition_prometheus_query_language {
      query = join(" ", [
        "sum ${local.by_job} (abs(delta(${local.progress}[${var.stall_minutes}m]))) == 0",
        "and ${local.long_running}",
      ])
      duration            = "300s"
      evaluation_interval = "60s"
    }
  }

  conditions {
    display_name = "${var.stall_minutes} minutes after its start a job has counted nothing"

    condition_prometheus_query_language {
      query               = "${local.long_running} unless sum ${local.by_job} (${local.progress})"
      duration            = "300s"
      evaluation_interval = "60s"
    }
  }

  documentation {
    content = format(local.runbook, "No progress")
  }

  depends_on = [google_project_service.required]
}

# Each attempt at a task or a shard that fails logs an error, also if a later attempt succeeds. Counters
# of such an attempt are lost with it, so that only the log can be counted.
resource "google_logging_metric" "worker_errors" {
  name        = "${var.name}/worker_errors"
  description = "Errors that the workers of corpusmill's jobs have logged."
  filter = join(" AND ", [
    "resource.type = \"dataflow_step\"",
    "resource.labels.job_name =~ \"^${var.name}-\"",
    "log_id(\"dataflow.googleapis.com/worker\")",
    "severity >= ERROR",
  ])

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"

    labels {
      key = "job"
    }
  }

  label_extractors = { job = "EXTRACT(resource.labels.job_name)" }

  depends_on = [google_project_service.required]
}

resource "google_monitoring_alert_policy" "worker_errors" {
  display_name          = "${var.name}: errors on workers"
  combiner              = "OR"
  severity              = "WARNING"
  notification_channels = local.channels

  conditions {
    display_name = "more than ${var.worker_errors} errors in ten minutes"

    condition_threshold {
      filter = join(" AND ", [
        "resource.type = \"dataflow_step\"",
        "metric.type = \"logging.googleapis.com/user/${google_logging_metric.worker_errors.name}\"",
      ])
      comparison      = "COMPARISON_GT"
      threshold_value = var.worker_errors
      duration        = "0s"

      aggregations {
        alignment_period     = "600s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
        group_by_fields      = ["metric.label.job"]
      }
    }
  }

  documentation {
    content = format(local.runbook, "Errors on workers")
  }
}
