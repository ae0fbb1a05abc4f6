package mesh

import (
	"slices"
	"testing"
)

func TestSecretName(t *testing.T) {
	for _, c := range []struct {
		text    string
		want    SecretName
		objects []string
	}{
		{"kubernetes://cert", SecretName{KubernetesSecret, "", "cert", false}, []string{"cert"}},
		{"kubernetes://cert-cacert", SecretName{KubernetesSecret, "", "cert", true}, []string{"cert-cacert", "cert"}},
		{"kubernetes://ns/cert", SecretName{KubernetesSecret, "ns", "cert", false}, []string{"cert"}},
		{"kubernetes://ns/a.b-cacert", SecretName{KubernetesSecret, "ns", "a.b", true}, []string{"a.b-cacert", "a.b"}},
		{"kubernetes-gateway://ns/cert", SecretName{GatewaySecret, "ns", "cert", false}, []string{"cert"}},
		{"kubernetes-gateway://ns/cert-cacert", SecretName{GatewaySecret, "ns", "cert", true}, []string{"cert-cacert", "cert"}},
		{"configmap://ns/roots", SecretName{ConfigMapSecret, "ns", "roots", true}, []string{"roots"}},
	} {
		got, err := ParseSecretName(c.text)
		if err != nil || got != c.want {
			t.Errorf("%q reads as %+v (%v), want %+v", c.text, got, err, c.want)
		}
		if got.String() != c.text {
			t.Errorf("%q is written as %q", c.text, got)
		}
		if !slices.Equal(got.Objects(), c.objects) {
			t.Errorf("%q: objects = %q, want %q", c.text, got.Objects(), c.objects)
		}
	}
	for _, text := range []string{
		"", "default", "ROOTCA", "file-root:/etc/ca.pem", "file-cert:/key.pem~/cert.pem", "invalid://", "builtin://", "sds://x", "x://y",
		"kubernetes", "kubernetes:", "kubernetes://", "kubernetes:///x", "kubernetes://ns/", "kubernetes://ns/a/b", "kubernetes://-cacert",
		"kubernetes-gateway://cert", "configmap://roots", "configmap:///roots",
	} {
		if got, err := ParseSecretName(text); err == nil {
			t.Errorf("%q reads as %+v", text, got)
		}
	}
}

// A ConfigMap has only trusted certificates, so the suffix of the name is optional.
func TestSecretNameOfConfigMap(t *testing.T) {
	n, err := ParseSecretName("configmap://ns/roots-cacert")
	if want := (SecretName{ConfigMapSecret, "ns", "roots", true}); err != nil || n != want {
		t.Errorf("reads as %+v (%v), want %+v", n, err, want)
	}
}

func TestCredentialName(t *testing.T) {
	for credential, want := range map[string]string{
		"cert": "kubernetes://cert", "ns/cert": "kubernetes://ns/cert", "kubernetes-gateway://ns/cert": "kubernetes-gateway://ns/cert",
		"configmap://ns/roots": "configmap://ns/roots", "builtin://": "", "sds://x": "", "": "",
	} {
		got, ok := CredentialName(credential)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%q is %q (%v), want %q", credential, got, ok, want)
		}
	}
	if n, _ := CredentialName("cert"); TrustOf(n).String() != "kubernetes://cert-cacert" {
		t.Errorf("trusted certificates are %q", TrustOf(n))
	}
}

func FuzzParseSecretName(f *testing.F) {
	f.Add("kubernetes://ns/cert-cacert")
	f.Add("configmap://ns/roots-cacert-cacert")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseSecretName(text)
		if err != nil {
			return
		}
		if again, err := ParseSecretName(n.String()); err != nil || again != n && n.Store != ConfigMapSecret {
			t.Errorf("%q reads as %+v, and then as %+v (%v)", text, n, again, err)
		}
	})
}
