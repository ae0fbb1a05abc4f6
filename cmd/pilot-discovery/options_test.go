package main

import (
	"slices"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/discovery"
)

// TestVariablesOfOptions checks that variables of istiod set the options that they should, and that
// the options have other values by default.
func TestVariablesOfOptions(t *testing.T) {
	for _, test := range []struct {
		variables map[string]string
		isSet     func(discovery.Options) bool
	}{
		{
			map[string]string{"ISTIO_WATCH_NAMESPACE": "shop"},
			func(o discovery.Options) bool { return o.Kubernetes.AppNamespace == "shop" },
		},
		{
			map[string]string{"PILOT_IGNORE_RESOURCES": "*.istio.io, a.b", "PILOT_INCLUDE_RESOURCES": "c.d"},
			func(o discovery.Options) bool {
				i := o.Kubernetes.Ignored
				return slices.Equal(i.Resources, []string{"*.istio.io", "a.b"}) && slices.Equal(i.Except, []string{"c.d"})
			},
		},
		{
			map[string]string{"GRPC_KEEPALIVE_INTERVAL": "1m", "GRPC_KEEPALIVE_TIMEOUT": "20s"},
			func(o discovery.Options) bool {
				return o.Keepalive.Interval == time.Minute && o.Keepalive.Timeout == 20*time.Second
			},
		},
		{
			map[string]string{"ISTIO_GPRC_MAXRECVMSGSIZE": "33554432"},
			func(o discovery.Options) bool { return o.Limits.Request == 32<<20 },
		},
		{
			map[string]string{"PILOT_CA_CERT_CONFIGMAP": "roots"},
			func(o discovery.Options) bool { return o.Authority.RootConfigMap == "roots" },
		},
		{
			map[string]string{"PILOT_ENABLE_CA_CRL": "false"},
			func(o discovery.Options) bool { return !o.Authority.PublishRevocationLists },
		},
	} {
		if test.isSet(optionsOf(t, nil)) {
			t.Errorf("%v: the value is the default", test.variables)
		}
		if !test.isSet(optionsOf(t, test.variables)) {
			t.Errorf("%v has no effect", test.variables)
		}
	}
}

// TestTokenIssuer checks when TOKEN_ISSUER selects a token issuer besides Kubernetes.
func TestTokenIssuer(t *testing.T) {
	const issuer, rule = "https://issuer.example.com", `{"issuer":"https://other.example.com","audiences":["a"]}`
	for _, test := range []struct {
		about            string
		variables        map[string]string
		issuer, audience string
	}{
		{"nothing", nil, "", ""},
		{"an audience alone", map[string]string{"AUDIENCE": "mesh"}, "", ""},
		{"an issuer", map[string]string{"TOKEN_ISSUER": issuer}, issuer, "istio-ca"},
		{"both", map[string]string{"TOKEN_ISSUER": issuer, "AUDIENCE": "mesh"}, issuer, "mesh"},
		{"other audiences", map[string]string{"TOKEN_ISSUER": issuer, "TOKEN_AUDIENCES": "own"}, issuer, "own"},
		{"in a pod", map[string]string{"TOKEN_ISSUER": issuer, "KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "", ""},
		{"with JWT_RULE", map[string]string{"TOKEN_ISSUER": issuer, "JWT_RULE": rule}, "https://other.example.com", "a"},
	} {
		got, audience := "", ""
		if r := optionsOf(t, test.variables).Authority.OIDC; r != nil {
			got, audience = r.Issuer, r.Audiences[0]
		}
		if got != test.issuer || audience != test.audience {
			t.Errorf("%s: issuer %q, audience %q; want %q, %q", test.about, got, audience, test.issuer, test.audience)
		}
	}
}

// TestWatchNamespaceAndFlag checks that ISTIO_WATCH_NAMESPACE is the default of --appNamespace.
func TestWatchNamespaceAndFlag(t *testing.T) {
	c := discoveryCommand(func(name string) (string, bool) { return "shop", name == "ISTIO_WATCH_NAMESPACE" })
	if got := c.Flags().Lookup("appNamespace").Value.String(); got != "shop" {
		t.Errorf("--appNamespace is %q, want shop", got)
	}
}
