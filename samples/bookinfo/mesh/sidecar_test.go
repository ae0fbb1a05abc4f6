package mesh

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCapture(t *testing.T) {
	const istio = "-p 15001 -z 15006 -u 1337 -m REDIRECT -i * -x  -b * -d 15090,15021,15020"
	for _, c := range []struct {
		name string
		s    sidecar
		want string
	}{
		{"as root", sidecar{hasUID: true, hasTables: true}, istio},
		{"as root without iptables", sidecar{hasUID: true}, istio + " --native-nftables"},
		{"in a user namespace", sidecar{hasTables: true}, istio + " --proxy-mark 1337 --native-nftables"},
	} {
		if got := strings.Join(c.s.capture().Args, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAgent(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "reviews-v1", Namespace: "default", Labels: map[string]string{"app": "reviews"}},
		Spec:       corev1.PodSpec{ServiceAccountName: "bookinfo-reviews"},
		Status:     corev1.PodStatus{PodIP: "10.66.1.31"},
	}
	s := sidecar{agentPath: "/bin/pilot-agent", envoy: "/bin/envoy", domain: domain}
	const mark = "MESHPILOT_SOCKET_MARK=1337"
	for _, hasUID := range []bool{true, false} {
		s.hasUID = hasUID
		c, err := s.agent(pod, "/dir")
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
