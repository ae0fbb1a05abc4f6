package kube_test

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestProtocol(t *testing.T) {
	for _, c := range []struct {
		port string // of the Service, as YAML
		want mesh.Protocol
	}{
		{`{name: http, port: 80}`, mesh.HTTP},
		{`{name: http-foo, port: 80}`, mesh.HTTP},
		{`{name: HTTP, port: 80}`, mesh.HTTP},
		{`{name: http2, port: 80}`, mesh.HTTP2},
		{`{name: https, port: 443}`, mesh.HTTPS},
		{`{name: grpc, port: 80}`, mesh.GRPC},
		{`{name: grpc-x, port: 80}`, mesh.GRPC},
		{`{name: grpc-web, port: 80}`, mesh.GRPCWeb},
		{`{name: grpc-web-x, port: 80}`, mesh.GRPCWeb},
		{`{name: tls-x, port: 80}`, mesh.TLS},
		{`{name: tcp, port: 80}`, mesh.TCP},
		{`{name: mongo, port: 80}`, mesh.Mongo},
		{`{name: mysql, port: 80}`, mesh.MySQL},
		{`{name: redis, port: 80}`, mesh.Redis},
		{`{name: udp-x, port: 80}`, mesh.UDP},
		{`{port: 80}`, mesh.Auto},
		{`{name: web, port: 80}`, mesh.Auto},
		{`{name: httpx, port: 80}`, mesh.Auto},
		{`{name: foo-http, port: 80}`, mesh.Auto},

		{`{name: tcp, port: 80, appProtocol: http}`, mesh.HTTP},
		{`{name: http, port: 80, appProtocol: example.com/secret}`, mesh.Auto},
		{`{port: 80, appProtocol: kubernetes.io/h2c}`, mesh.HTTP2},
		{`{port: 80, appProtocol: kubernetes.io/ws}`, mesh.HTTP},
		{`{port: 80, appProtocol: kubernetes.io/wss}`, mesh.HTTPS},
		{`{port: 80, appProtocol: GRPC}`, mesh.GRPC},
		{`{port: 80, appProtocol: tls}`, mesh.TLS},
		{`{port: 80, appProtocol: tcp}`, mesh.TCP},
		{`{port: 80, appProtocol: mongo}`, mesh.Mongo},
		{`{port: 80, appProtocol: mysql}`, mesh.MySQL},
		{`{port: 80, appProtocol: redis}`, mesh.Redis},
		{`{port: 80, appProtocol: https}`, mesh.HTTPS},

		{`{name: http, port: 53, protocol: UDP, appProtocol: http}`, mesh.UDP},
		{`{name: http, port: 80, protocol: SCTP}`, mesh.Unsupported},
		{`{name: http, port: 80, protocol: TCP}`, mesh.HTTP},

		// Istio takes the ports of protocols in which the server speaks first for TCP, unless
		// something is declared.
		{`{name: db, port: 3306}`, mesh.TCP},
		{`{port: 27017}`, mesh.TCP},
		{`{port: 25}`, mesh.TCP},
		{`{port: 53}`, mesh.TCP},
		{`{name: http-db, port: 3306}`, mesh.HTTP},
		{`{port: 6379}`, mesh.Auto},
	} {
		t.Run(c.port, func(t *testing.T) {
			s := service(t, converted(t, kube.Options{}, fmt.Sprintf(`
kind: Service
metadata: {name: a, namespace: b}
spec: {clusterIP: 10.0.0.1, ports: [%s]}`, c.port)))
			if got := s.Ports[0].Protocol; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
