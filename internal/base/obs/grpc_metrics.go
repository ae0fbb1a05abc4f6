package obs

import (
	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
)

// registerGRPC creates the metrics of unary calls under istiod's names, registers them, adds their
// rows to the list and returns the metrics. Streams are counted as proxies.
func (t *metricTable) registerGRPC() *grpcprom.ServerMetrics {
	m := grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram())
	t.registry.MustRegister(m)
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	t.list = append(t.list, []Metric{
		{Name: "grpc_server_started_total", Type: "counter", Labels: labels, Help: "Unary calls of gRPC begun."},
		{
			Name: "grpc_server_handled_total", Type: "counter", Labels: append(labels[:3:3], "grpc_code"),
			Help: "Unary calls of gRPC ended, by status code.",
		},
		{
			Name: "grpc_server_msg_received_total", Type: "counter", Labels: labels,
			Help: "Messages of unary calls received.",
		},
		{Name: "grpc_server_msg_sent_total", Type: "counter", Labels: labels, Help: "Messages of unary calls sent."},
		{
			Name: "grpc_server_handling_seconds", Type: "histogram", Labels: labels,
			Help: "Duration of unary calls of gRPC.",
		},
	}...)
	return m
}
