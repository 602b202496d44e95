variable "project" {
  description = "The project that the jobs run in and that pays for them; it must exist."
  type        = string
}

variable "region" {
  description = "The region of workers, buckets and images. Traffic between regions is billed."
  type        = string
  default     = "us-central1"
}

variable "name" {
  description = "The first part of the names of all resources, and of the jobs that alerts watch."
  type        = string
  default     = "corpusmill"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{3,18}[a-z0-9]$", var.name))
    error_message = "Give 5 to 20 small letters, digits and hyphens, with a letter first."
  }
}

variable "input_buckets" {
  description = "Existing buckets, without gs://, that workers may read corpora and tokenizers from."
  type        = set(string)
  default     = []
}

variable "submitters" {
  description = "Who may submit jobs as the launcher, such as user:name@example.com or group:team@example.com."
  type        = set(string)
  default     = []
}

variable "reaches_internet" {
  description = "Whether workers reach the internet through Cloud NAT, which inputs of the hub (hf://) need."
  type        = bool
  default     = false
}

variable "subnetwork_range" {
  description = "The addresses of the workers; a /20 has room for 4,092."
  type        = string
  default     = "10.128.0.0/20"
}

variable "temporary_days" {
  description = "Days after which the temporary files of runs that were killed are deleted."
  type        = number
  default     = 14
}

variable "notification_emails" {
  description = "The addresses that get alerts. Without any, alerts are only shown in the console."
  type        = set(string)
  default     = []
}

variable "reject_share" {
  description = "The number of rejects, as a share of the documents, above which an alert is sent."
  type        = number
  default     = 0.001
}

variable "worker_errors" {
  description = "The number of errors that workers log in ten minutes above which an alert is sent."
  type        = number
  default     = 3
}

variable "stall_minutes" {
  description = "Minutes without any progress after which an alert is sent."
  type        = number
  default     = 30
}
