package pushtrace

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The protocols of OTLP, as OTEL_EXPORTER_OTLP_PROTOCOL names them.
const (
	GRPC = "grpc"
	HTTP = "http/protobuf"
)

// stopTime bounds how long spans are flushed when the control plane stops.
const stopTime = 5 * time.Second

// Service describes the control plane in its traces.
type Service struct{ Version, Instance, Namespace string }

// NewTracer returns a Tracer whose spans are sent to a collector with a protocol of OTLP, and a
// function that sends what is left and closes the connection. Address, headers, certificates,
// limits and the service name come from the OTEL_ environment variables, which the exporters of
// OpenTelemetry read; the name is "meshpilot" by default. A collector that cannot be reached is no
// error: OpenTelemetry's global error handler, which NewTracer sets, logs it, and spans are
// dropped. It returns an error for an unknown protocol and for settings that are not valid.
func NewTracer(ctx context.Context, protocol string, s Service, log *slog.Logger) (trace.Tracer, func(), error) {
	var client otlptrace.Client
	switch protocol {
	case GRPC:
		client = otlptracegrpc.NewClient()
	case HTTP:
		client = otlptracehttp.NewClient()
	default:
		return nil, nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is neither %s nor %s", protocol, GRPC, HTTP)
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, nil, fmt.Errorf("export traces: %w", err)
	}
	described, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "meshpilot"), attribute.String("service.version", s.Version),
		attribute.String("service.instance.id", s.Instance), attribute.String("k8s.namespace.name", s.Namespace),
	), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces cannot be exported, spans are dropped", "err", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	stop := func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if err := provider.Shutdown(flush); err != nil {
			log.Warn("the last traces were not exported", "err", err)
		}
	}
	return provider.Tracer("github.com/meshpilot/meshpilot"), stop, nil
}
