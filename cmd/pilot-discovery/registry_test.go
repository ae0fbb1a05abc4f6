package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/discovery/options"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestRegistryEnvironment checks Istio's variables for the conversion of objects to services, and
// their defaults.
func TestRegistryEnvironment(t *testing.T) {
	read := func(variables map[string]string) options.Registry {
		o := options.DefaultRegistry()
		e := environment{lookup: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }}
		e.applyRegistry(&o)
		if e.err != nil {
			t.Error(e.err)
		}
		return o
	}
	if diff := cmp.Diff(options.DefaultRegistry(), read(nil)); diff != "" {
		t.Errorf("defaults: -want +got:\n%s", diff)
	}
	want := options.Registry{
		IngressNamespace: "edge",
		ReadyOnly:        true,
		Export:           true,
		ClusterSet:       kube.ClusterSet{Exports: true, Hosts: true, Local: true},
		Labels: mesh.LabelNames{
			Session:       "example.com/session",
			SessionHeader: mesh.NoLabel,
			Draining:      "example.com/leaving",
		},
	}
	got := read(map[string]string{
		"K8S_INGRESS_NS":                           "edge",
		"PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS":      "false",
		"PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES": "false",
		"PILOT_ENABLE_SERVICEENTRY_SELECT_PODS":    "false",
		"ENABLE_MCS_AUTO_EXPORT":                   "true",
		"PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API": "false",
		"ENABLE_MCS_SERVICE_DISCOVERY":             "true",
		"ENABLE_MCS_HOST":                          "true",
		"ENABLE_MCS_CLUSTER_LOCAL":                 "true",
		"PILOT_PERSISTENT_SESSION_LABEL":           "example.com/session",
		"PILOT_PERSISTENT_SESSION_HEADER_LABEL":    "",
		"PILOT_DRAINING_LABEL":                     "example.com/leaving",
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	both := read(
		map[string]string{"PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS": "false", "PILOT_SEND_UNHEALTHY_ENDPOINTS": "true"},
	)
	if both.ReadyOnly {
		t.Error("PILOT_SEND_UNHEALTHY_ENDPOINTS has not the last word")
	}
}
