package pilotctl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestKubernetesSessions runs commands on an API server with two replicas of the control plane, of the revision
// default, a proxy and three pods whose Envoys have root certificates.
func TestKubernetesSessions(t *testing.T) {
	golden.Run(t, "testdata/kubernetes/*.txtar", func(t *testing.T, c *golden.Case) {
		l := newLabAlone(t)
		l.apply(injector("default") + "---" + service(l.shop) + "---" + route(l.shop, "1s"))
		a := l.replica("istiod-a", "default", nil)
		l.replica("istiod-b", "default", nil)
		a.connect("web", "10.1.0.1")
		for name, roots := range map[string]string{"web": "root A", "reviews": "root A", "old": "root B"} {
			l.podWithRoots(a, name, roots)
		}
		s := &session{variables: map[string]string{"KUBECONFIG": l.cluster.Kubeconfig()}}
		for line := range strings.Lines(string(c.Input("commands"))) {
			line = strings.TrimSpace(line)
			if namespace, labels, is := strings.Cut(strings.TrimPrefix(line, "kubectl label namespace "), " "); is && strings.HasPrefix(line, "kubectl ") {
				fmt.Fprintf(&s.text, "$ %s\n\n", line)
				k, v, _ := strings.Cut(labels, "=")
				l.labelNamespace(namespace, map[string]string{k: v})
				continue
			}
			s.run(t, line, splitWords(line))
		}
		c.Compare(t, "session", []byte(s.stableText()))
	})
}
