package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/console"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// TestTenThousandRows opens the list of 10,000 proxies, which a stub of the read API returns. The
// browser must have the rows in view only, scrolling must show the last one, and a filter one of
// them.
func TestTenThousandRows(t *testing.T) {
	const rows = 10_000
	list := readapi.ProxyList{}
	for i := range rows {
		list.Proxies = append(list.Proxies, readapi.Proxy{
			Proxy: fmt.Sprintf("web-%05d.shop", i), Namespace: "shop", Type: "sidecar", State: readapi.ProxySynced, Cluster: "Kubernetes",
			Types: map[string]string{"CDS": "SYNCED", "EDS": "SYNCED", "LDS": "SYNCED", "RDS": "SYNCED"}, Address: "10.1.0.1",
			Locality: "region/zone", IstioVersion: "1.31.0", EnvoyVersion: "1.40.0", ConnectedAt: time.Now(), Replica: "istiod-1",
		})
	}
	mux := http.NewServeMux()
	mux.Handle(console.Prefix, console.New(debug.Access{}))
	mux.HandleFunc(readapi.Prefix+"/proxies", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	})
	server := httptest.NewServer(mux)
	b := newBrowser(t, server.URL)
	t.Cleanup(server.Close)
	b.open("proxies")
	b.await("10,000 proxies shown", "web-00000.shop")
	if n := b.countRows(); n > 100 {
		t.Errorf("the page has %d rows", n)
	}
	b.runScript(`document.querySelector('[aria-label="Connected proxies"]').scrollTop = 1e9`)
	b.await("web-09999.shop")
	if n := b.countRows(); n > 100 {
		t.Errorf("the page has %d rows after scrolling", n)
	}
	b.fill(`input[type=search]`, "web-04711")
	b.await("1 proxy shown", "web-04711.shop")
	b.checkAccessibility("10,000 proxies")
}

// countRows returns the number of rows of all tables of the page.
func (b *browser) countRows() int {
	b.t.Helper()
	return run(b, "count rows", chromedp.Evaluate[int](`document.querySelectorAll("tbody tr").length`))
}
