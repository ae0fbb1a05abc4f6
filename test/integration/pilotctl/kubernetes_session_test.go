package pilotctl

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestKubernetesSessions runs commands on an API server with two replicas of the control plane, of the revision
// default, a proxy, three pods whose Envoys have root certificates, the real Envoy of a gateway, and the pods
// of dashboards. "kubectl label namespace", "kubectl apply -f" of a section of the file, and "tar" are the only
// other programs of a session.
func TestKubernetesSessions(t *testing.T) {
	golden.Run(t, absolutePath(t, "testdata/kubernetes/*.txtar"), func(t *testing.T, c *golden.Case) {
		l, gateway := newSessionLab(t)
		t.Chdir(t.TempDir()) // bug-report writes a file
		s := &session{variables: map[string]string{"KUBECONFIG": l.cluster.Kubeconfig()}}
		for line := range strings.Lines(string(c.Input("commands"))) {
			line = strings.TrimSpace(line)
			words := splitWords(line)
			switch words[0] {
			case "kubectl":
				fmt.Fprintf(&s.text, "$ %s\n\n", line)
				if words[1] == "apply" {
					l.apply(string(c.Input(words[3])))
					continue
				}
				k, v, _ := strings.Cut(words[4], "=")
				l.labelNamespace(words[3], map[string]string{k: v})
			case "tar":
				out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).Output()
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&s.text, "$ %s\n%s\n", line, out)
			case "nacks":
				l.eventually("a rejected resource", func() error {
					if r := l.pilotctl(words...); strings.Count(r.out, "\n") < 2 {
						return errors.New(r.out + r.errors)
					}
					return nil
				})
				s.run(t, line, words)
			case "metrics":
				endLoad := startLoad(t, "http://"+gateway+"/web")
				l.eventually("latencies of requests", func() error {
					if r := l.pilotctl(words...); r.code != 0 || strings.Contains(r.out, " -") {
						return errors.New(r.out + r.errors)
					}
					return nil
				})
				s.run(t, line, words)
				endLoad()
			case "dashboard":
				fmt.Fprintf(&s.text, "$ pilotctl %s\n%s\n^C\n\n", line, l.dashboard("", words[1:]...))
			default:
				s.run(t, line, words)
			}
		}
		c.Compare(t, "session", []byte(s.stableText()))
	})
}

// newSessionLab returns a lab with what the commands of sessions read, and the address of its gateway.
func newSessionLab(t *testing.T) (l *lab, gateway string) {
	t.Helper()
	l = newLabAlone(t)
	objects, gateway := gatewayObjects(t, l.shop)
	l.apply(injector("default") + "---" + service(l.shop) + "---" + route(l.shop, "1s") + "---" + objects)
	l.apply(readerAccount(l.system) + "---" + meshService(l.system))
	l.endpoints(l.system, "istiod", true)
	a := l.secureReplica("istiod-a")
	l.secureReplica("istiod-b")
	l.awaitRoots()
	l.kubelet.forward("istiod-a", 9876, a.HTTP)
	a.connect("web", "10.1.0.1")
	mesh, before := string(pki.Authority("mesh").CertificatePEM()), string(pki.Authority("before").CertificatePEM())
	for name, roots := range map[string]string{"web": mesh, "reviews": mesh, "old": before} {
		l.podWithRoots(a, name, roots)
	}
	l.agent(l.gateway(a))
	for name, port := range map[string]int{"prometheus": 9090, "grafana": 3000, "kiali": 20001, "jaeger": 16686, "zipkin": 9411} {
		l.kubelet.forward(name, port, a.HTTP)
		l.pod(l.system, name, map[string]string{"app": name, "app.kubernetes.io/name": name}, func(p *corev1.Pod) {
			p.Spec.Containers[0].Name = name
		})
	}
	return l, gateway
}
