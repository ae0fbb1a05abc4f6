package console

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// TestChanges watches changes reach the proxies: one that does not answer and one that rejects are
// named.
func TestChanges(t *testing.T) {
	const all = "virtual-service-all-v1"
	f := newFixture(t, "destination-rule-all", all)
	f.resize(1280, 900, "light")
	f.open("changes")
	f.await("Everything: start, mesh settings or forced push")

	// The open page shows the progress of a change.
	text := rule(t, all)
	slow := f.proxies["ratings-v1"]
	slow.SetSilent(true)
	f.write(t, all+".yaml", strings.Replace(text, "host: reviews\n        subset: v1", "host: reviews\n        subset: v2", 1))
	f.await("VirtualService/default/reviews", "6 of 7", "Waits for 1 proxy")
	f.click(`main tbody tr:first-child a[href^="/ui/changes/istiod-1."]`)
	f.await("Change istiod-1.", "Proxies that have not answered", "ratings-v1.default", "RDS not acknowledged", "7 proxies affected", "1 RDS")
	f.screenshot("change-light")
	slow.SetSilent(false)
	f.await("7 of 7", "Acknowledged", "ratings-v1.default", "pilotctl changes istiod-1.")

	// A rejection has its proxy and reason.
	f.proxies["details-v1"].Refuse(api.RouteType)
	f.write(t, all+".yaml", strings.Replace(text, "host: reviews\n        subset: v1", "host: reviews\n        subset: v3", 1))
	f.open("changes?namespace=default")
	f.await("Rejected by 1 proxy", "6 of 7")
	f.click(`main tbody tr:first-child a[href^="/ui/changes/istiod-1."]`)
	f.await("RDS 9080", "no: 9080", "details-v1.default", "1 rejected it")
	f.screenshot("change-rejected-light")
	f.open("changes/istiod-1.9999")
	f.await("No replica remembers this change.")
}

// TestHistory checks that the console shows the changes of an object, and that an object without a
// change has no history.
func TestHistory(t *testing.T) {
	const all = "virtual-service-all-v1"
	f := newFixture(t, "destination-rule-all", all)
	f.resize(1280, 1400, "light")
	f.open("objects/VirtualService/default/reviews")
	f.await("History", "It has not changed since the control plane started.")
	text := rule(t, all)
	f.write(t, all+".yaml", strings.Replace(text, "host: reviews\n        subset: v1", "host: reviews\n        subset: v2", 1))
	f.await("1 field changed", "spec.http[0].route[0].destination.subset", "\"v1\"", "\"v2\"", "The version before")
	f.checkAccessibility("history")
	f.screenshot("history-light")

	// A version with an error is not used: the page shows that the one before it is, and where the error is.
	f.write(t, all+".yaml", strings.Replace(text, "host: reviews\n        subset: v1", "host: reviews\n        subsett: v1", 1))
	f.await("The newest version is invalid: the one before it stays in use", "7 of 7 proxies", "unknown field")
	f.write(t, all+".yaml", "")
	f.await("Deleted", "The control plane has no valid version of this object.")
}
