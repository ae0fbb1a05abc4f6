package authority

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// identity returns the SPIFFE ID of a service account of the namespace shop.
func identity(t *testing.T, account string) spiffe.ID {
	t.Helper()
	id, err := spiffe.Parse("spiffe://cluster.local/ns/shop/sa/" + account)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// leaf returns a certificate that ends at a time.
func leaf(serial int64, until time.Time) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: until}
}

// TestIssuedCache fills the cache: expired entries make place for new ones, others stay.
func TestIssuedCache(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var c issuedCache
	for i := range maxIssued {
		c.record(identity(t, fmt.Sprint("old-", i)), leaf(1, now.Add(time.Hour)), now)
	}
	c.record(identity(t, "late"), leaf(1, now.Add(time.Hour)), now)
	c.record(identity(t, "old-0"), leaf(255, now.Add(9*time.Hour)), now)
	list := c.list()
	if _, there := list[identity(t, "late")]; there || len(list) != maxIssued || list[identity(t, "old-0")].Serial != "ff" {
		t.Errorf("the full cache has %d entries, late: %v, old-0: %v", len(list), there, list[identity(t, "old-0")])
	}
	c.record(identity(t, "late"), leaf(1, now.Add(9*time.Hour)), now.Add(2*time.Hour))
	if list := c.list(); len(list) != 2 {
		t.Errorf("%d entries after the others have expired", len(list))
	}
}

// fixedIssuer issues one certificate, or fails.
type fixedIssuer struct {
	ca.Issuer
	leaf *x509.Certificate
}

func (i fixedIssuer) Issue(context.Context, ca.Request) (ca.Issued, error) {
	if i.leaf == nil {
		return ca.Issued{}, errors.New("not ready")
	}
	return ca.Issued{Chain: []*x509.Certificate{i.leaf}}, nil
}

// TestRecordingIssuer checks that issued certificates are recorded, and that nothing is recorded on
// an error.
func TestRecordingIssuer(t *testing.T) {
	var c issuedCache
	until := time.Now().Add(time.Hour)
	id := identity(t, "web")
	if _, err := (recordingIssuer{fixedIssuer{}, &c}).Issue(t.Context(), ca.Request{ID: id}); err == nil || len(c.list()) != 0 {
		t.Errorf("after an error %v: %v", err, c.list())
	}
	if _, err := (recordingIssuer{fixedIssuer{leaf: leaf(7, until)}, &c}).Issue(t.Context(), ca.Request{ID: id}); err != nil {
		t.Fatal(err)
	}
	if got := c.list()[id]; got.Serial != "7" || !got.NotAfter.Equal(until) {
		t.Errorf("recorded %+v", got)
	}
}
