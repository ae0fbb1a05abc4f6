package gateway

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestManifests renders the objects of a Gateway, with the labels and annotations of its infrastructure. Sections: gateway
// is the object; settings (optional) has the revision and whether metadata is copied; overlays (optional) is a list of
// ConfigMaps' data. Output is either manifests or error.
func TestManifests(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		var gateway gatewayv1.Gateway
		if err := yaml.UnmarshalStrict(c.Input("gateway"), &gateway); err != nil {
			t.Fatal(err)
		}
		var settings struct {
			Revision     string
			CopyMetadata bool
		}
		if err := yaml.UnmarshalStrict(c.Input("settings"), &settings); err != nil {
			t.Fatal(err)
		}
		var overlays []map[string]string
		if err := yaml.UnmarshalStrict(c.Input("overlays"), &overlays); err != nil {
			t.Fatal(err)
		}
		in := &input{
			Spec: specOf(&gateway), meta: &gateway,
			revision: settings.Revision, copyMetadata: settings.CopyMetadata,
		}
		objects, err := applyOverlays(in.manifests(), overlays)
		if err != nil {
			c.Compare(t, "error", []byte(err.Error()+"\n"))
			return
		}
		var out bytes.Buffer
		for i, m := range objects {
			if i > 0 {
				out.WriteString("---\n")
			}
			text, err := yaml.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(text)
		}
		c.Compare(t, "manifests", out.Bytes())
	})
}

// specOf returns the Spec of a Gateway with a port for each of its listeners.
func specOf(gateway *gatewayv1.Gateway) *Spec {
	s := &Spec{
		Gateway:        types.NamespacedName{Namespace: gateway.Namespace, Name: gateway.Name},
		Class:          string(gateway.Spec.GatewayClassName),
		ObjectName:     gateway.Name + "-" + string(gateway.Spec.GatewayClassName),
		Infrastructure: gateway.Spec.Infrastructure,
	}
	for _, a := range gateway.Spec.Addresses {
		s.Addresses = append(s.Addresses, a.Value)
	}
	for _, l := range gateway.Spec.Listeners {
		protocol, application := corev1.ProtocolTCP, strings.ToLower(string(l.Protocol))
		if l.Protocol == gatewayv1.UDPProtocolType {
			protocol = corev1.ProtocolUDP
		}
		s.Ports = append(s.Ports, corev1.ServicePort{
			Name: string(l.Name), Port: l.Port, Protocol: protocol, AppProtocol: &application,
		})
	}
	return s
}
