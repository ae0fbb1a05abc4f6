package cli

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"
)

// TestNodeOfConnectedProxy builds the node of a gateway from the page of a control plane, without the
// metadata with which it would be registered as a workload.
func TestNodeOfConnectedProxy(t *testing.T) {
	x := connectedProxy{
		ConnectionID: "web-1.shop-7",
		Address:      "10.1.0.9:4711",
		Labels:       map[string]any{"app": "web"},
		Metadata:     map[string]any{"NAMESPACE": "shop", "AUTO_REGISTER_GROUP": "vms", "WORKLOAD_ENTRY": "vm-1"},
		Locality:     map[string]string{"region": "r", "sub_zone": "s"},
	}
	n, err := x.node("router", "web-1.shop")
	if err != nil {
		t.Fatal(err)
	}
	if want := "router~10.1.0.9~web-1.shop~shop.svc.cluster.local"; n.GetId() != want {
		t.Errorf("ID %q, want %q", n.GetId(), want)
	}
	for _, name := range []string{"AUTO_REGISTER_GROUP", "WORKLOAD_ENTRY"} {
		if _, ok := n.GetMetadata().GetFields()[name]; ok {
			t.Errorf("the node has %s, which would register a workload", name)
		}
	}
	labels, _ := n.GetMetadata().AsMap()["LABELS"].(map[string]any)
	if labels["app"] != "web" || n.GetLocality().GetRegion() != "r" || n.GetLocality().GetSubZone() != "s" {
		t.Errorf("labels %v, locality %v", labels, n.GetLocality())
	}
	x.Metadata["INSTANCE_IPS"] = "10.1.0.3,fd00::3"
	if n, err = x.node("sidecar", "web-1.shop"); err != nil || n.GetId() != "sidecar~10.1.0.3~web-1.shop~shop.svc.cluster.local" {
		t.Errorf("ID %q, error %v", n.GetId(), err)
	}
	if _, ok := n.GetMetadata().GetFields()["NAMESPACE"].GetKind().(*structpb.Value_StringValue); !ok {
		t.Errorf("metadata %v", n.GetMetadata())
	}
}
