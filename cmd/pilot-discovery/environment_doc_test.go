package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	consul "github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/test/support/document"
)

// TestEnvironmentIsDocumented compares docs/ENVIRONMENT.md with the variable names in this folder:
// all variables that are read are documented as read, and no others.
func TestEnvironmentIsDocumented(t *testing.T) {
	read := document.FindNames(
		document.ReadSources(t),
		regexp.MustCompile(`"([A-Z][A-Z0-9]*(_[A-Z0-9]+)+|REVISION|KUBECONFIG|PLATFORM|AUDIENCE)"`),
	)
	for _, name := range []string{
		consul.HTTPTokenEnvName, consul.HTTPTokenFileEnvName, consul.HTTPNamespaceEnvName, consul.HTTPPartitionEnvName,
	} {
		read[name] = true // by Consul's client library: TestEnvironment of internal/ingest/registry/consul
	}
	text, others, found := strings.Cut(document.ReadContent(t, "../../docs/ENVIRONMENT.md"), "## Not read")
	if !found {
		t.Fatal("the document has no part about names that are not read")
	}
	names := regexp.MustCompile("`([A-Z][A-Z0-9_]+)`")
	if diff := cmp.Diff(
		slices.Sorted(maps.Keys(read)),
		slices.Sorted(maps.Keys(document.FindNames(text, names))),
	); diff != "" {
		t.Errorf("docs/ENVIRONMENT.md, read (-is +said):\n%s", diff)
	}
	for name := range document.FindNames(others, names) {
		if read[name] {
			t.Errorf("docs/ENVIRONMENT.md: %s is read", name)
		}
	}
}

// TestAllVariablesOfIstiod checks that each variable of istiod is documented: as read by
// pilot-discovery, as not read, or as one of the agent's.
func TestAllVariablesOfIstiod(t *testing.T) {
	names := regexp.MustCompile("`([A-Z][A-Z0-9_]+)`")
	known := document.FindNames(document.ReadContent(t, "../../docs/ENVIRONMENT.md"), names)
	maps.Copy(known, document.FindNames(document.ReadContent(t, "../../docs/ENVIRONMENT-AGENT.md"), names))
	for name := range strings.Lines(document.ReadContent(t, "testdata/istiod-1.31-variables")) {
		if name = strings.TrimSpace(name); !strings.HasPrefix(name, "#") && !known[name] {
			t.Errorf("%s of istiod is not in docs/ENVIRONMENT.md", name)
		}
	}
}
