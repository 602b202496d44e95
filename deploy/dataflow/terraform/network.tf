# Workers have no public addresses. They reach Google's services by Private Google Access, and nothing
# else unless `reaches_internet` is set.
resource "google_compute_network" "workers" {
  name                    = var.name
  auto_create_subnetworks = false

  depends_on = [google_project_service.required]
}

resource "google_compute_subnetwork" "workers" {
  name                     = "${var.name}-workers"
  network                  = google_compute_network.workers.id
  region                   = var.region
  ip_cidr_range            = var.subnetwork_range
  private_ip_google_access = true
}

# Workers of a job exchange data on these ports, and Dataflow gives each of them this tag.
resource "google_compute_firewall" "between_workers" {
  name        = "${var.name}-between-workers"
  network     = google_compute_network.workers.id
  direction   = "INGRESS"
  source_tags = ["dataflow"]
  target_tags = ["dataflow"]

  allow {
    protocol = "tcp"
    ports    = ["12345-12346"]
  }
}

resource "google_compute_router" "internet" {
  count = var.reaches_internet ? 1 : 0

  name    = "${var.name}-internet"
  network = google_compute_network.workers.id
  region  = var.region
}

resource "google_compute_router_nat" "internet" {
  count = var.reaches_internet ? 1 : 0

  name                               = "${var.name}-internet"
  router                             = google_compute_router.internet[0].name
  region                             = var.region
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "LIST_OF_SUBNETWORKS"

  subnetwork {
    name                    = google_compute_subnetwork.workers.id
    source_ip_ranges_to_nat = ["ALL_IP_RANGES"]
  }
}
