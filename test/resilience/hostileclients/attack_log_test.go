package hostileclients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/metadata"
	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// hugeRefusals refuses listeners with messages of 15 MB, 20 on a stream.
func hugeRefusals(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	st, end, err := a.openStream(ctx, d)
	if err != nil {
		return err
	}
	defer end()
	node := a.node(fmt.Sprintf("talker-%d", r.IntN(20)), nil)
	if err := st.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: api.ListenerType}); err != nil {
		return err
	}
	response, err := st.Recv()
	if err != nil {
		return err
	}
	text := strings.Repeat("x", 15<<20)
	for n := range 20 {
		if err := acknowledge(st, response, text); err != nil {
			_, err = st.Recv()
			return err
		}
		a.count(int64(n) + 1)
	}
	pause(ctx, time.Second)
	return nil
}

// forgedLine is the text that an attacker tries to put at the start of a line in the log.
const forgedLine = "2026-01-01T00:00:00.000000Z\terror\tca\tFORGED-BY-A-CLIENT"

// forgeLogLines puts newlines and a forged log line into everything that a client can name: node
// ids, versions, clusters, refusals, resource names, metadata, tokens.
func forgeLogLines(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	line := fmt.Sprintf("\r\n%s %d\n\x1b[2J\u2028%s\n", forgedLine, r.IntN(1e6), forgedLine)
	good := a.node("forger", nil)
	id := &corev3.Node{Id: "sidecar~127.0.0.66~a" + line + "." + a.Namespace + "~" + a.Domain, Metadata: good.Metadata}
	domain := &corev3.Node{Id: good.Id + line, Metadata: good.Metadata}
	labels := a.node("forger", map[string]any{
		"LABELS": map[string]any{line: line}, "ISTIO_VERSION": line, "CLUSTER_ID": line, "NETWORK": line,
		"WORKLOAD_NAME": line, "GENERATOR": line, "PROXY_CONFIG": map[string]any{line: line},
	})
	namespace := a.node("forger", map[string]any{"NAMESPACE": line})
	for _, node := range []*corev3.Node{id, domain, labels, namespace, good} {
		if err := a.forgeOnStream(ctx, d, node, line); err != nil && ctx.Err() != nil {
			return nil
		}
	}
	if !d.TLS {
		return nil
	}
	conn, err := a.connect(d)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer a.b.c", "clusterid", "x FORGED",
		"user-agent", "FORGED")
	_, err = security.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx,
		&security.IstioCertificateRequest{Csr: line})
	return err
}

func (a *attacker) forgeOnStream(ctx context.Context, d door, node *corev3.Node, line string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	st, end, err := a.openStream(ctx, d)
	if err != nil {
		return err
	}
	defer end()
	if err := st.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: api.ListenerType,
		ResourceNames: []string{line}}); err != nil {
		return err
	}
	response, err := st.Recv()
	if err != nil {
		return err
	}
	if err := acknowledge(st, response, line, line); err != nil {
		return err
	}
	a.count(1)
	if err := st.Send(&discoveryv3.DiscoveryRequest{TypeUrl: "type.googleapis.com/" + line}); err != nil {
		return err
	}
	pause(ctx, 20*time.Millisecond)
	return nil
}
