package debug

import (
	"testing"
)

func TestFind(t *testing.T) {
	list := twoProxies(t).list
	older := list[1]
	older.ID, older.ConnectedAt = older.Proxy.ID+"-9", at(0)
	pages := New(Options{Proxies: fleet{list: append(list, older)}})
	for id, want := range map[string]string{
		"web-1": list[1].ID, "web-1.shop": list[1].ID, list[1].Proxy.ID: list[1].ID, older.ID: older.ID, "pay": list[0].ID, "nobody": "",
	} {
		if c, _ := pages.FindConnection(id, Caller{}); c.ID != want {
			t.Errorf("%q finds %q, want %q", id, c.ID, want)
		}
	}
	if _, found := pages.FindConnection("web-1", Caller{Namespace: "other"}); found {
		t.Error("a caller finds a proxy of another namespace")
	}
	if _, found := New(Options{Proxies: fleet{}}).FindConnection("", Caller{}); found {
		t.Error("found a proxy that does not exist")
	}
}

func TestByteCount(t *testing.T) {
	for n, want := range map[int]string{0: "0B", 434: "434B", 6800: "6.8kB", 2_500_000: "2.5MB"} {
		if got := byteCount(n); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
}

func TestSyncState(t *testing.T) {
	for want, r := range map[string]ResourceStatus{
		"ERROR": {Sent: "2", Acked: "1", LastError: "no such filter"}, "NOT SENT": {},
		"STALE": {Sent: "2", Acked: "1"}, "QUARANTINED": {Sent: "1", Acked: "1", Quarantined: []string{"80"}},
	} {
		if got := r.SyncState(); got != want {
			t.Errorf("%+v is %s, want %s", r, got, want)
		}
	}
	for _, r := range []ResourceStatus{{Sent: "1", Acked: "1"}, {UpToDate: true}} {
		if got := r.SyncState(); got != "SYNCED" {
			t.Errorf("%+v is %s, want SYNCED", r, got)
		}
	}
}
