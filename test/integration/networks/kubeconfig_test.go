package networks

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/test/support/cluster"
)

func kubeconfigOf(t *testing.T, c *cluster.Cluster, config *rest.Config) []byte {
	t.Helper()
	text, err := os.ReadFile(c.KubeconfigOf(t, config))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
