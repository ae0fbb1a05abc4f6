package console

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// TestStory breaks a route, sees the problem without a reload, computes what the fix would do,
// applies it, and watches it reach the proxies.
func TestStory(t *testing.T) {
	const all = "virtual-service-all-v1"
	f := newFixture(t, "destination-rule-all", all)
	f.resize(1280, 900, "light")
	f.open("")
	f.await("Healthy", "No object has a problem.", "proxies connected\n7")

	// A subset that does not exist: the open page changes.
	broken := strings.Replace(rule(t, all), "host: reviews\n        subset: v1", "host: reviews\n        subset: v7", 1)
	if broken == rule(t, all) {
		t.Fatal("the rule is not broken")
	}
	f.write(t, all+".yaml", broken)
	f.await("1 warning", "VirtualService/default/reviews", `a subset "v7"`, "spec.http[0].route[0].destination.subset", "Fix:", " · ", " s ago",
		"Latest changes", "7 of 7")

	// The link leads to the line of the object, and the browser's history back.
	f.click(`main a[href^="/ui/objects/VirtualService/default/reviews?field="]`)
	f.await("default/reviews", "subset: v7", "All proxies have it", "7 of 7 proxies")
	f.awaitScript(markedLines + ` === 'subset: v7'`)
	f.runScript(`history.back()`)
	f.await("Problems", "1 warning")

	// What would the fix do? It is not applied.
	f.click(`nav a[href="/ui/what-if"]`)
	f.fill("#yaml", rule(t, all))
	f.click("form button.primary")
	f.await("proxies change", "Resolved problems", `a subset "v7"`, "outbound|9080|v1|reviews.default.svc.cluster.local")
	f.screenshot("what-if-report-light")

	// It is applied. One sidecar does not answer: the object's page names it until it does.
	slow := f.proxies["ratings-v1"]
	slow.SetSilent(true)
	f.write(t, all+".yaml", rule(t, all))
	f.open("objects/VirtualService/default/reviews")
	f.await("subset: v1", "6 of 7 proxies", "ratings-v1.default", "RDS 9080 not acknowledged")
	f.awaitScript(`!document.body.innerText.includes('a subset "v7"')`) // the problem of the previous version is resolved
	f.screenshot("rollout-light")
	slow.SetSilent(false)
	f.await("All proxies have it", "7 of 7 proxies")

	// A sidecar that rejects something is on the overview, and on its own page with the reason.
	f.proxies["details-v1"].Refuse(api.RouteType)
	f.write(t, all+".yaml", strings.Replace(rule(t, all), "host: reviews\n        subset: v1", "host: reviews\n        subset: v2", 1))
	f.open("proxies?state=rejecting")
	f.await("details-v1.default", "ERROR", "no: 9080")
}

// TestKeyboard reaches the content and another page without a mouse.
func TestKeyboard(t *testing.T) {
	f := newFixture(t)
	f.open("")
	f.await("Healthy")
	f.press("\t", "\r")
	f.awaitScript(`document.activeElement.id === 'page'`)
	f.open("")
	f.await("Healthy")
	f.press("\t", "\t", "\t", "\t", "\r") // skip link, brand, Overview, Proxies
	f.await("7 proxies shown")
	f.awaitScript(`document.activeElement.id === 'page' && document.title.startsWith('Proxies')`)
}
