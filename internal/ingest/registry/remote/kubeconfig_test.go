package remote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubeconfig (T-KUBECONFIG-SAN): a kubeconfig in a Secret can neither run programs here nor
// have files read.
func TestKubeconfig(t *testing.T) {
	const whole = `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", CLUSTER}}]
users: [{name: u, user: {USER}}, {name: other, user: {OTHER}}]
`
	make := func(cluster, user, other string) string {
		return strings.NewReplacer("CLUSTER", cluster, "USER", user, "OTHER", other).Replace(whole)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, text string
		allowed    []string
		want       string // of the error; "": none
	}{
		{"a token", make("", "token: t", ""), nil, ""},
		{"a certificate in it", make("certificate-authority-data: Y2E=", "client-certificate-data: Y2E=, client-key-data: Y2E=", ""), nil, ""},
		{"a password", make("", "username: u, password: p", ""), nil, ""},
		{"exec", make("", "exec: {command: /bin/sh, apiVersion: client.authentication.k8s.io/v1}", ""), nil, "exec"},
		{"exec of a user that is not the current one", make("", "token: t", "exec: {command: /bin/sh, apiVersion: client.authentication.k8s.io/v1}"), nil, "exec"},
		{"auth provider", make("", "auth-provider: {name: gcp}", ""), nil, "auth-provider"},
		{"auth provider without a name", make("", "auth-provider: {config: {a: b}}", ""), nil, "auth-provider"},
		{"oidc", make("", "auth-provider: {name: oidc}", ""), nil, "auth-provider"},
		{"token file", make("", "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token", ""), nil, "tokenFile"},
		{"token beside a token file", make("", "token: t, tokenFile: /etc/passwd", ""), nil, "tokenFile"},
		{"client certificate file", make("", "client-certificate: /etc/passwd", ""), nil, "client-certificate"},
		{"client key file", make("", "client-certificate-data: Y2E=, client-key: /etc/passwd", ""), nil, "client-key"},
		{"roots file", make("certificate-authority: /etc/passwd", "token: t", ""), nil, "certificate-authority"},
		{"empty", "", nil, "is empty"},
		{"no YAML", "{{", nil, "cannot be read"},
		{"no server", strings.Replace(make("", "token: t", ""), "https://127.0.0.1:6443", "", 1), nil, "not valid"},
		{"no current context", strings.Replace(make("", "token: t", ""), "current-context: c", "", 1), nil, "has no usable cluster"},
		{"too long", strings.Repeat("#", maxKubeconfig+1), nil, "bytes"},
		{"a token file that is allowed", make("", "tokenFile: "+file, ""), []string{"tokenFile"}, ""},
		{"exec where another thing is allowed", make("", "exec: {command: /bin/sh, apiVersion: client.authentication.k8s.io/v1}", ""), []string{"tokenFile", ""}, "exec"},
		{"a provider without a name where the empty name is allowed", make("", "auth-provider: {config: {a: b}}", ""), []string{"", "exec"}, "auth-provider"},
	}
	for _, test := range tests {
		config, err := parseKubeconfig([]byte(test.text), test.allowed)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want == "" && config.Host != "https://127.0.0.1:6443":
			t.Errorf("%s: leads to %q", test.name, config.Host)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want an error with %q", test.name, err, test.want)
		}
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(`{"users":[{"name":"u","user":{"exec":{"command":"x"}}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		config, err := parseKubeconfig(text, nil)
		if err == nil && (config.ExecProvider != nil || config.AuthProvider != nil || config.BearerTokenFile != "" || config.CertFile != "" || config.KeyFile != "" || config.CAFile != "") {
			t.Errorf("%q runs a program or reads a file: %+v", text, config)
		}
	})
}
