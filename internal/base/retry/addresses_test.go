package retry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/retry"
)

// TestAddresses has three replicas. Each step lists how each address that is tried behaves, in the order in
// which they must be tried: "a-" fails, "b+" is used without an error, "c!" is used and ends with an error.
func TestAddresses(t *testing.T) {
	a := retry.NewAddresses([]string{"a", "b", "c"})
	for _, step := range []struct{ attempts, want string }{
		{"a+", ""},
		{"a+", ""}, // stays in use
		{"a- b+", ""},
		{"b- c- a+", ""},
		{"a!", "a ends"}, // was used, so no other one is tried
		{"b!", "b ends"}, // but the next time
		{"c- a- b-", "c fails; a fails; b fails"},
		{"c- a- b-", "c fails; a fails; b fails"},
		{"c+", ""},
	} {
		left := strings.Fields(step.attempts)
		err := a.Try(t.Context(), func(address string) (done bool, err error) {
			if len(left) == 0 || left[0][:1] != address {
				t.Fatalf("step %q: address %s is tried, with %v left", step.attempts, address, left)
			}
			behaviour := left[0][1:]
			left = left[1:]
			switch behaviour {
			case "-":
				return false, errors.New(address + " fails")
			case "!":
				return true, errors.New(address + " ends")
			}
			return true, nil
		})
		if got := fmt.Sprint(err); len(left) > 0 || got != step.want && (err != nil || step.want != "") {
			t.Errorf("step %q: error %v, want %q; %v are not tried", step.attempts, err, step.want, left)
		}
	}
}

// TestAddressesOfOneCause fails for a reason that all addresses share, which is reported once.
func TestAddressesOfOneCause(t *testing.T) {
	cause := errors.New("no token")
	err := retry.NewAddresses([]string{"a", "b", "c"}).Try(t.Context(), func(address string) (bool, error) {
		if address == "b" {
			return false, errors.New("b fails")
		}
		return false, cause
	})
	if err == nil || err.Error() != "no token; b fails" || !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	if err := retry.NewAddresses(nil).Try(t.Context(), nil); err != nil {
		t.Errorf("error %v without addresses", err)
	}
}

// TestAddressesAfterTheContext ends the context during an attempt, which is the last one and proves nothing
// about its address.
func TestAddressesAfterTheContext(t *testing.T) {
	a := retry.NewAddresses([]string{"a", "b"})
	var tried []string
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		_ = a.Try(ctx, func(address string) (bool, error) {
			tried = append(tried, address)
			cancel()
			return false, ctx.Err()
		})
	}
	if got := strings.Join(tried, " "); got != "a a" {
		t.Errorf("tried %s", got)
	}
}
