package retry

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Addresses are the addresses of a server's replicas; a client uses one of them at a time. It is
// safe for concurrent use.
type Addresses struct {
	list []string

	mu sync.Mutex
	// current is the index of the address that the next Try begins with.
	current int
}

// NewAddresses returns Addresses whose first Try begins with the first address of the list.
func NewAddresses(list []string) *Addresses { return &Addresses{list: list} }

// Try calls attempt with each address in turn until one is done, ctx ends, or all were tried once.
// It begins with the address that was used last, or the one after it if that attempt returned an
// error, even a done one. It returns the error of the done attempt, otherwise the distinct errors
// of all (nil without addresses). An attempt that the end of ctx interrupts does not change which
// is next.
func (a *Addresses) Try(ctx context.Context, attempt func(address string) (done bool, err error)) error {
	a.mu.Lock()
	first := a.current
	a.mu.Unlock()
	var failed []error
	for i := range a.list {
		index := (first + i) % len(a.list)
		done, err := attempt(a.list[index])
		if ctx.Err() == nil {
			a.setCurrent(index, err)
		}
		if done {
			return err
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return joinDistinct(failed)
}

// setCurrent makes the address of an attempt the current one, or the one after it if err is not
// nil. After the last address it continues with the first.
func (a *Addresses) setCurrent(index int, err error) {
	if err != nil {
		index = (index + 1) % len(a.list)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current = index
}

// joinDistinct returns the errors as one, with a semicolon between their texts. It leaves out nil,
// and errors with the text of an earlier one. It returns nil if none is left.
func joinDistinct(errs []error) error {
	var joined error
	for i, err := range errs {
		same := func(other error) bool { return other != nil && other.Error() == err.Error() }
		switch {
		case err == nil || slices.ContainsFunc(errs[:i], same):
		case joined == nil:
			joined = err
		default:
			joined = fmt.Errorf("%w; %w", joined, err)
		}
	}
	return joined
}
