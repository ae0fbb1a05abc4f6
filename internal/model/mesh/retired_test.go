package mesh

import (
	"strings"
	"testing"
)

// TestRetiredProxyConfig: a field that Istio has retired is removed from the annotation's
// ProxyConfig and reported, and the other fields apply.
func TestRetiredProxyConfig(t *testing.T) {
	c, ignored, err := OverlayProxyConfig(DefaultProxyConfig(), []byte("parentShutdownDuration: 60s\nstatusPort: 1\n"))
	if err != nil || c.GetStatusPort() != 1 {
		t.Fatalf("%v, %v", c, err)
	}
	if ignored == nil || !strings.Contains(ignored.Error(), "parentShutdownDuration: is retired and has no effect") {
		t.Errorf("ignored: %v", ignored)
	}
	if _, ignored, err := OverlayProxyConfig(DefaultProxyConfig(), []byte("statusPort: 1\n")); ignored != nil || err != nil {
		t.Errorf("nothing is retired: %v, %v", ignored, err)
	}
}

// TestRetiredMeshConfig: it is read without its retired fields, in either spelling.
func TestRetiredMeshConfig(t *testing.T) {
	text := []byte("mixer_check_server: a:1\nauthPolicy: MUTUAL_TLS\ntrustDomain: td.example\n")
	m, err := ParseMeshConfig(text)
	if err != nil || m.GetTrustDomain() != "td.example" {
		t.Fatalf("%v, %v", m, err)
	}
	list := MeshConfigWarnings(text)
	if len(list) != 2 || list[0].Field != "authPolicy" || !strings.Contains(list[0].Reason, "PeerAuthentication") || list[1].Field != "mixer_check_server" {
		t.Errorf("warnings %v", list)
	}
}
