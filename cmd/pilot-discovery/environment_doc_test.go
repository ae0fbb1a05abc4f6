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
		regexp.MustCompile(`"([A-Z][A-Z0-9]*(_[A-Z0-9]+)+|REVISION|KUBECONFIG|PLATFORM)"`),
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
