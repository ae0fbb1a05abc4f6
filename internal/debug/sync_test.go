package debug

import (
	"testing"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// TestSyncz is what istioctl proxy-status reads over xDS.
func TestSyncz(t *testing.T) {
	list := Syncz(twoProxies(t).list, Caller{})
	if len(list) != 2 || list[0].Node.Id != "pay-1.bank" || list[1].Node.Id != "web-1.shop" {
		t.Fatalf("proxies %v", list)
	}
	states := map[string]statusv3.ConfigStatus{}
	for _, x := range list[0].GenericXdsConfigs {
		states[api.ShortType(x.TypeUrl)] = x.ConfigStatus
		if x.LastUpdated == nil {
			t.Errorf("%s has no time: istioctl would show an age of decades", x.TypeUrl)
		}
		if x.TypeUrl == api.ClusterType && x.ErrorState.GetDetails() != "bad cluster" {
			t.Errorf("the refusal is not told: %v", x.ErrorState)
		}
	}
	for short, want := range map[string]statusv3.ConfigStatus{
		"CDS": statusv3.ConfigStatus_ERROR, "LDS": statusv3.ConfigStatus_STALE, "RDS": statusv3.ConfigStatus_NOT_SENT,
	} {
		if states[short] != want {
			t.Errorf("%s is %v, want %v", short, states[short], want)
		}
	}
	for _, x := range list[1].GenericXdsConfigs {
		if x.ConfigStatus != statusv3.ConfigStatus_SYNCED {
			t.Errorf("%s of a proxy that took everything: %v", x.TypeUrl, x.ConfigStatus)
		}
	}
	for key, want := range map[string]string{"CLUSTER_ID": "Kubernetes", "NAMESPACE": "shop", "ISTIO_VERSION": "1.31.0"} {
		if got := list[1].Node.Metadata.Fields[key].GetStringValue(); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if own := Syncz(twoProxies(t).list, Caller{Namespace: "shop"}); len(own) != 1 || own[0].Node.Id != "web-1.shop" {
		t.Errorf("a workload of shop is shown %v", own)
	}
}

func TestFind(t *testing.T) {
	list := twoProxies(t).list
	older := list[1]
	older.ID, older.ConnectedAt = older.Proxy.ID+"-9", at(0)
	list = append(list, older)
	for id, want := range map[string]string{
		"web-1": list[1].ID, "web-1.shop": list[1].ID, list[1].Proxy.ID: list[1].ID, older.ID: older.ID, "pay": list[0].ID, "nobody": "",
	} {
		if c, _ := Find(list, id); c.ID != want {
			t.Errorf("%q finds %q, want %q", id, c.ID, want)
		}
	}
	if _, found := Find([]push.Connection{}, ""); found {
		t.Error("found a proxy where there is none")
	}
}

func TestByteCount(t *testing.T) {
	for n, want := range map[int]string{0: "0B", 434: "434B", 6800: "6.8kB", 2_500_000: "2.5MB"} {
		if got := byteCount(n); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
}
