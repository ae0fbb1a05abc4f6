package component

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestCaptureCommand(t *testing.T) {
	const istio = "-p 15001 -z 15006 -u 1337 -m REDIRECT -i * -x  -b * -d 15090,15021,15020"
	dns := SidecarOptions{CaptureDNS: true}
	for _, c := range []struct {
		name string
		s    Sidecars
		want string
	}{
		{"as root", Sidecars{hasUID: true, hasTables: true}, istio},
		{"as root without iptables", Sidecars{hasUID: true}, istio + " --native-nftables"},
		{"in a user namespace", Sidecars{hasTables: true}, istio + " --proxy-mark 1337 --native-nftables"},
		{"with DNS", Sidecars{options: dns, hasUID: true, hasTables: true}, istio + " --redirect-dns --capture-all-dns"},
	} {
		if got := strings.Join(c.s.captureCommand().Args, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAgentCommand(t *testing.T) {
	w := Workload{
		Name: "reviews-v1", Namespace: "default", Labels: map[string]string{"app": "reviews"},
		ServiceAccount: "bookinfo-reviews", Address: netip.MustParseAddr("10.66.1.31"),
	}
	s := Sidecars{options: SidecarOptions{Agent: "/bin/pilot-agent", Envoy: "/bin/envoy", Domain: "cluster.local"}}
	const mark = "MESHPILOT_SOCKET_MARK=1337"
	for _, hasUID := range []bool{true, false} {
		s.hasUID = hasUID
		c, err := s.agentCommand(w, "/dir")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"POD_NAME=reviews-v1", "POD_NAMESPACE=default", "INSTANCE_IP=10.66.1.31", "SERVICE_ACCOUNT=bookinfo-reviews",
			`ISTIO_METAJSON_LABELS={"app":"reviews"}`,
		} {
			if !slices.Contains(c.Env, want) {
				t.Errorf("the environment lacks %s: %q", want, c.Env)
			}
		}
		if got := strings.Join(c.Args, " "); got != "proxy sidecar --domain default.svc.cluster.local" {
			t.Errorf("arguments %s", got)
		}
		if wantUID := map[bool]int{true: 1337, false: 0}[hasUID]; c.UID != wantUID || slices.Contains(c.Env, mark) == hasUID {
			t.Errorf("with uid 1337 %t: runs as %d, with the environment %q", hasUID, c.UID, c.Env)
		}
	}
}
