package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInDomains(t *testing.T) {
	accounts := []string{"spiffe://old/ns/a/sa/b", "spiffe://other/ns/a/sa/b", "vm.example.com"}
	if diff := cmp.Diff(accounts, inDomains(accounts, []string{"new"})); diff != "" {
		t.Errorf("without aliases: %s", diff)
	}
	want := []string{"spiffe://new/ns/a/sa/b", "spiffe://old/ns/a/sa/b", "spiffe://other/ns/a/sa/b", "vm.example.com"}
	if diff := cmp.Diff(want, inDomains(accounts, []string{"new", "old"})); diff != "" {
		t.Error(diff)
	}
}
