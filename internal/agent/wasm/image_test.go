package wasm

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestRegistry tests modules in artifacts and in the last layers of images, with and without
// credentials.
func TestRegistry(t *testing.T) {
	var authorized atomic.Int64
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/secret/") {
			if user, password, ok := r.BasicAuth(); !ok || user != "u" || password != "p" {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				http.Error(w, "authentication required", http.StatusUnauthorized)
				return
			}
			authorized.Add(1)
		} else if r.Header.Get("Authorization") != "" && strings.Contains(r.URL.Path, "/open/") {
			t.Error("credentials were sent for a public image")
		}
		if r.URL.Path == "/v2/" && strings.Contains(r.UserAgent(), "go-containerregistry") && r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusOK)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	push := func(path string, layer v1.Layer) string {
		image, err := mutate.AppendLayers(empty.Image, layer)
		if err != nil {
			t.Fatal(err)
		}
		reference, err := name.ParseReference(host+path, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		plain := httptest.NewServer(inner)
		defer plain.Close()
		target, err := name.ParseReference(strings.TrimPrefix(plain.URL, "http://")+path, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(target, image); err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		_ = reference
		return digest.Hex
	}
	inTar, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive(t, module(), file("plugin.wasm")))), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	artifact := push("/open/artifact:v1", static.NewLayer(module(), contentLayer))
	push("/open/image:v1", inTar)
	push("/secret/image:v1", inTar)
	http.DefaultClient.CloseIdleConnections()
	remote.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:forcetypeassert // of go-containerregistry

	t.Setenv("HOME", t.TempDir()) // has no credentials
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("REGISTRY_AUTH_FILE", "")
	t.Setenv("DOCKER_CONFIG", "")
	c := newCache(t, func(o *Options) { o.InsecureRegistries = []string{host} })
	secret := []byte(fmt.Sprintf(`{"auths":{"http://%s/v2/":{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("u:p"))))
	for _, test := range []struct {
		m    Module
		want string
	}{
		{Module{URL: "oci://" + host + "/open/artifact:v1", Checksum: artifact}, ""},
		{Module{URL: "oci://" + host + "/open/artifact@sha256:" + artifact}, ""},
		{Module{URL: "oci://" + host + "/open/image:v1"}, ""},
		{Module{URL: "oci://" + host + "/secret/image:v1", PullSecret: secret}, ""},
		{Module{URL: "oci://" + host + "/open/artifact:v1", Checksum: sumOf(nil)}, "image digest is"},
		{Module{URL: "oci://" + host + "/secret/image:v1"}, "401"},
		{Module{URL: "oci://" + host + "/open/none:v1"}, "NAME_UNKNOWN"},
		{Module{URL: "oci://" + host + "/open/image:v1", PullSecret: []byte("user:password")}, "not a .dockerconfigjson"},
		{Module{URL: "oci://"}, "could not parse reference"},
	} {
		path, err := c.FilePath(t.Context(), test.m)
		if test.want == "" {
			if b, err2 := os.ReadFile(path); err != nil || err2 != nil || !bytes.Equal(b, module()) {
				t.Errorf("%s: %q, %v", test.m.URL, b, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "password") {
			t.Errorf("%s: %v, want …%s…", test.m.URL, err, test.want)
		}
	}
	if authorized.Load() == 0 {
		t.Error("no request was asked for credentials")
	}
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	private := Module{URL: "oci://" + host + "/secret/image:v1"}
	for _, test := range []struct{ file, want string }{
		{string(secret), ""}, {`{"auths":{"other.example.com":{"auth":"dTpw"}}}`, "401"}, {"{", "unexpected EOF"},
	} {
		if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(test.file), 0o600); err != nil {
			t.Fatal(err)
		}
		c := newCache(t, func(o *Options) { o.InsecureRegistries = []string{host} })
		_, err := c.FilePath(t.Context(), private)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("credentials of the user %s: %v, want …%s…", test.file, err, test.want)
		}
	}
}

// TestPullSecrets tests which credentials of a secret a registry is sent.
func TestPullSecrets(t *testing.T) {
	for _, test := range []struct{ name, auths, registry, want string }{
		{"the host", `"reg.example.com/team-a": {"username": "a"}, "reg.example.com": {"username": "host"}, "https://reg.example.com/v2/": {"username": "v2"}`, "reg.example.com", "host"},
		{"the first of several URLs", `"reg.example.com/b": {"username": "b"}, "reg.example.com/a": {"username": "a"}, "reg.example.com/c": {"username": "c"}`, "reg.example.com", "a"},
		{"Docker Hub", `"index.docker.io": {"username": "host"}, "https://index.docker.io/v1/": {"username": "login"}, "a.com": {"username": "a"}`, "index.docker.io", "login"},
		{"another host", `"reg.example.com/a": {"username": "a"}`, "example.com", ""},
	} {
		keys, err := parsePullSecret([]byte(`{"auths": {` + test.auths + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		registry, err := name.NewRegistry(test.registry)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 { // the order of a map varies
			found, err := keys.Resolve(registry)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := found.Authorization(); err != nil || got.Username != test.want {
				t.Fatalf("%s: user %q, want %q (%v)", test.name, got.Username, test.want, err)
			}
		}
	}
	keys, err := parsePullSecret([]byte(`{"auths": {"a.com": {"registrytoken": "t"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := keys.(credentials)["a.com"].RegistryToken; got != "t" { //nolint:forcetypeassert // of a secret with content
		t.Errorf("registry token %q", got)
	}
}

// TestInsecureHosts fetches modules from a web server and a registry whose certificates no authority
// has signed.
func TestInsecureHosts(t *testing.T) {
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/") {
			images.ServeHTTP(w, r)
			return
		}
		_, _ = w.Write(module())
	}))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	host := strings.TrimPrefix(server.URL, "https://")
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(module(), contentLayer))
	if err != nil {
		t.Fatal(err)
	}
	reference, err := name.ParseReference(host + "/m:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference, image, remote.WithTransport(server.Client().Transport)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		insecure []string
		ok       bool
	}{{nil, false}, {[]string{"other.example.com"}, false}, {[]string{host}, true}, {[]string{"*"}, true}} {
		c := newCache(t, func(o *Options) { o.InsecureRegistries = test.insecure })
		for _, url := range []string{server.URL + "/m", "oci://" + host + "/m:v1"} {
			_, err := c.FilePath(t.Context(), Module{URL: url})
			if (err == nil) != test.ok || err != nil && !strings.Contains(err.Error(), "certificate") {
				t.Errorf("insecure hosts %q, %s: %v", test.insecure, url, err)
			}
		}
	}
}
