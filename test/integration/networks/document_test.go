package networks

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
	"github.com/meshpilot/meshpilot/test/support/document"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// installDocumented runs all commands of docs/install/clusters.md, with a context of the kubeconfig
// for each cluster. Only the address of the API server of west differs from the document: pods of
// east do not reach the one in the kubeconfig.
func installDocumented(t *testing.T, east, west site) {
	t.Helper()
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	sections := document.ParseSections(document.ReadContent(t, filepath.Join(root, "docs/install/clusters.md")))
	if len(sections) != 3 {
		t.Fatalf("the document has %d sections with commands, want 3", len(sections))
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*contextsOf(t, east, west), kubeconfig); err != nil {
		t.Fatal(err)
	}
	sh, err := mesh.NewShell(t.Context(), east.Programs(), kubeconfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sh.Close()
	for _, section := range sections {
		t.Log(section.Title)
		commands := strings.ReplaceAll(section.Commands, "--name west", "--name west --server "+west.addressForPods())
		if err := sh.Run(t.Context(), commands); err != nil {
			t.Fatalf("%s: %v\n%s%s", section.Title, err, east.events(), west.events())
		}
	}
}

// contextsOf returns a kubeconfig with a context for each cluster, of its ID.
func contextsOf(t *testing.T, sites ...site) *clientcmdapi.Config {
	t.Helper()
	all := clientcmdapi.NewConfig()
	for _, s := range sites {
		one, err := clientcmd.LoadFromFile(s.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		current := slices.Collect(maps.Values(one.Contexts))[0]
		all.Clusters[s.id], all.AuthInfos[s.id] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
		all.Contexts[s.id] = &clientcmdapi.Context{Cluster: s.id, AuthInfo: s.id}
	}
	return all
}
