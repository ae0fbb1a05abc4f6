// Package dashboards runs the queries of the Grafana dashboards, the alerts and the metrics of Istio's
// dashboards against a real Prometheus. It scrapes a mesh of Bookinfo with real Envoys under load, whose
// rules change all the time and one of whose proxies rejects its configuration.
//
// Inputs: the files of manifests/charts/istiod/monitoring. Every panel has data, or is listed in
// testdata/without_data.txt with the reason; the same holds for testdata/istio_metrics.txt.
// `make observability` runs it.
package dashboards
