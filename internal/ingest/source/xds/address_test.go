package xds

import (
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
)

func TestParseAddress(t *testing.T) {
	for text, tt := range map[string]struct {
		want  Address
		fault string
	}{
		"xds://127.0.0.1:15099":               {want: Address{Scheme: SchemeXDS, Host: "127.0.0.1:15099"}},
		"xds://[::1]:15099/":                  {want: Address{Scheme: SchemeXDS, Host: "[::1]:15099"}},
		"xds://config.example:443?mode=delta": {want: Address{Scheme: SchemeXDS, Host: "config.example:443", Delta: true}},
		"xds://config.example:443?mode=sotw":  {want: Address{Scheme: SchemeXDS, Host: "config.example:443"}},
		"fs:///etc/istio/config":              {want: Address{Scheme: SchemeFile, Path: "/etc/istio/config"}},
		"k8s://":                              {want: Address{Scheme: SchemeKubernetes}},

		"xds://config.example":             {fault: "want xds://host:port"},
		"xds://:15010":                     {fault: "want xds://host:port"},
		"xds://me@config.example:15010":    {fault: "want xds://host:port"},
		"xds://config.example:15010/path":  {fault: "want xds://host:port"},
		"xds://config.example:1?mode=fast": {fault: `mode is "fast": want sotw or delta`},
		"xds://config.example:1?delta=1":   {fault: `unknown parameter "delta"`},
		"fs://config/dir":                  {fault: "want fs:///path"},
		"fs://":                            {fault: "want fs:///path"},
		"k8s://other-cluster":              {fault: "want k8s://"},
		"http://config.example":            {fault: `unknown scheme "http"`},
		"127.0.0.1:15010":                  {fault: "first path segment in URL cannot contain colon"},
		"config.example":                   {fault: "has no scheme"},
		"":                                 {fault: "has no scheme"},
	} {
		got, err := ParseAddress(text)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%q: error %v, want %q", text, err, tt.fault)
			}
			continue
		}
		tt.want.Text = text
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%q: error %v (-want +got):\n%s", text, err, diff)
		}
	}
}

func TestNewNamesTheFieldThatIsWrong(t *testing.T) {
	type settings = networking.ClientTLSSettings
	for name, tt := range map[string]struct {
		address string
		tls     *settings
		want    string
	}{
		"address":      {"fs:///etc", nil, `address "fs:///etc": want xds://host:port`},
		"secret":       {"", &settings{Mode: networking.ClientTLSSettings_SIMPLE, CredentialName: "x"}, "tlsSettings: credentialName: secrets cannot be read here"},
		"mutual":       {"", &settings{Mode: networking.ClientTLSSettings_MUTUAL}, "tlsSettings: mode MUTUAL needs clientCertificate and privateKey"},
		"simple":       {"", &settings{Mode: networking.ClientTLSSettings_SIMPLE, ClientCertificate: "c"}, "want MUTUAL"},
		"disabled":     {"", &settings{CaCertificates: "c"}, "mode is DISABLE, but there are certificates"},
		"istio mutual": {"", &settings{Mode: networking.ClientTLSSettings_ISTIO_MUTUAL}, "the control plane has no certificate of its own"},
	} {
		if tt.address == "" {
			tt.address = "xds://127.0.0.1:1"
		}
		_, err := New(&meshconfig.ConfigSource{Address: tt.address, TlsSettings: tt.tls}, Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
}
