package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/console"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// TestTenThousandRows opens the list of 10,000 proxies. The browser must read and have the rows of one
// page only, show the last one on the last page, sort and filter all of them, and keep the address of the
// page.
func TestTenThousandRows(t *testing.T) {
	const rows = 10_000
	s, _ := snapshot.NewBuilder(snapshot.Options{}).Apply()
	p := push.New(push.Options{})
	for i := range rows {
		c := p.Connect(&mesh.Proxy{
			ID: fmt.Sprint("web-", i), Name: fmt.Sprintf("web-%05d", i), Namespace: "shop", Type: mesh.SidecarProxy,
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, byte((rows - i) >> 8), byte(rows - i)})},
		}, stream.Delta, "")
		defer c.Close()
	}
	o := readapi.Options{
		Snapshot: func() *snapshot.Snapshot { return s }, Connections: p.Reports().Connections, StreamStates: p.Reports().StreamStates,
		Connection: p.Reports().Connection, Replica: "istiod-1",
	}
	o.Pages = debug.New(debug.Options{Snapshot: o.Snapshot, Proxies: p.Reports()})
	mux := http.NewServeMux()
	mux.Handle(console.Prefix, console.New(debug.Access{}))
	mux.Handle(readapi.Prefix+"/", readapi.New(o))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close) // after the browser has closed its streams
	b := newBrowser(t, server.URL)
	b.open("proxies")
	b.await("1 to 100 of 10,000 proxies", "web-00000.shop", "Behind 10,000")
	if n := b.countRows(); n > 100 {
		t.Errorf("the page has %d rows", n)
	}
	b.clickButton("Last")
	b.await("9,901 to 10,000 of 10,000 proxies", "web-09900.shop")
	b.runScript(`document.querySelector('[aria-label="Connected proxies"]').scrollTop = 1e9`)
	b.await("web-09999.shop")
	b.clickButton("Previous")
	b.await("9,801 to 9,900 of 10,000 proxies", "web-09800.shop")
	b.clickButton("Address")
	b.await("1 to 100 of 10,000 proxies", "web-09999.shop")
	b.fill(`input[type=search]`, "web-04711")
	b.await("1 proxy shown", "web-04711.shop")
	b.checkAccessibility("10,000 proxies")
	b.open("proxies?page=3")
	b.await("201 to 300 of 10,000 proxies", "web-00200.shop")
}

// countRows returns the number of rows of all tables of the page.
func (b *browser) countRows() int {
	b.t.Helper()
	return run(b, "count rows", chromedp.Evaluate[int](`document.querySelectorAll("tbody tr").length`))
}

// clickButton clicks the button whose text begins so.
func (b *browser) clickButton(text string) {
	b.t.Helper()
	b.runScript(fmt.Sprintf(`[...document.querySelectorAll("button")].find(b => b.textContent.startsWith(%q)).click()`, text))
}
