package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// pages are a control plane's pages as pilotctl reads them.
func pages() map[string]string {
	return map[string]string{
		"/debug/syncz": `[{"cluster_id":"Kubernetes","proxy":"web-1.shop","istio_version":"0.1.0","cluster_sent":"3","cluster_acked":"3",
			"listener_sent":"4","listener_acked":"2","endpoint_sent":"5","endpoint_acked":"5"}]`,
		"/debug/problemz": `[{"kind":"VirtualService","namespace":"shop","name":"web","origin":"web.yaml#1:7","field":"spec.hosts","reason":"is empty","severity":"error"}]`,
		"/debug/nackz": `[{"proxy":"web-1.shop","type":"LDS","message":"bad port","resources":[{"name":"0.0.0.0_80","from":[
			{"Kind":"Service","Namespace":"shop","Name":"web"}]}]}]`,
		"/debug/registryz": `[{"hostname":"web.shop.svc.cluster.local","defaultAddress":"10.96.0.1","Attributes":{"Namespace":"shop","ServiceRegistry":"Kubernetes"},
			"ports":[{"port":80,"protocol":"HTTP"},{"port":81,"protocol":"UnsupportedProtocol"}]}]`,
	}
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages()[r.URL.Path]
		if !ok {
			http.Error(w, "no such page", http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(body))
	}))
	defer s.Close()
	var out bytes.Buffer
	c := New()
	c.SetOut(&out)
	c.SetArgs(append(args, "--server", strings.TrimPrefix(s.URL, "http://")))
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func TestTables(t *testing.T) {
	for command, want := range map[string][]string{
		"ps":       {"NAME", "web-1.shop", "SYNCED", "STALE", "NOT SENT"},
		"problems": {"error: VirtualService/shop/web (web.yaml#1:7): spec.hosts: is empty"},
		"nacks":    {"web-1.shop", "0.0.0.0_80", "Service/shop/web", "bad port"},
		"services": {"web.shop.svc.cluster.local", "80/HTTP,81/detected"},
	} {
		out, err := run(t, command)
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s does not show %q:\n%s", command, w, out)
			}
		}
	}
}

func TestJSONIsPassedOn(t *testing.T) {
	out, err := run(t, "ps", "-o", "json")
	if err != nil || out != pages()["/debug/syncz"] {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := run(t, "ps", "-o", "xml"); err == nil || !strings.Contains(err.Error(), "--output") {
		t.Errorf("error %v", err)
	}
}

func TestUnreachableServerIsNamed(t *testing.T) {
	c := New()
	c.SetArgs([]string{"ps", "--server", "127.0.0.1:1"})
	c.SetOut(new(bytes.Buffer))
	if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v", err)
	}
}
