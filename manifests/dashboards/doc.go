// Command dashboards writes the Grafana dashboards of the chart istiod, one JSON file each.
//
// Inputs: the tables of panels in this package, one file per dashboard. Outputs: files in the directory
// of the first argument (`make dashboards`); the chart renders them as ConfigMaps.
//
// Invariants: the output depends on the tables only. IDs and positions follow from the order, so that a
// new panel changes no other one. Every query is run by test/integration/observability.
//
// The types of model.go are the few fields of Grafana's format that the dashboards need, because the
// libraries for it (grafana-foundation-sdk) are larger than the dashboards.
//
// Start with controlPlane in control_plane.go; layout.go turns tables into Grafana's format.
package main
