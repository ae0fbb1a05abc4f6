package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/meshpilot/meshpilot/internal/base/httpserver"
)

// monitoringPort is the default port of the installer's metrics.
const monitoringPort = 15014

// newRegistry returns a registry with the metrics of the Go runtime and of this process.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// serveMetrics serves /metrics at a port until ctx ends. It does nothing if the port is 0 or
// negative. A port that cannot be opened is only logged, because the plugin works without metrics.
func serveMetrics(ctx context.Context, port int, metrics prometheus.Gatherer, log *slog.Logger) {
	if port <= 0 {
		return
	}
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		log.Error("cannot serve metrics, continuing without (--monitoring-port)", "error", err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	go func() {
		if err := httpserver.Serve(ctx, l, httpserver.Options{Handler: mux}); err != nil {
			log.Error("metrics are no longer served", "error", err)
		}
	}()
}
