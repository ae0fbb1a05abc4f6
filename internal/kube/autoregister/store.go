package autoregister

import (
	"context"
	"errors"
)

// Store keeps WorkloadEntries. A change is refused with ErrConflict if the entry is not as it was when it was read.
type Store interface {
	// Get gives an entry, nil if there is none.
	Get(ctx context.Context, namespace, name string) (*Entry, error)
	// Create makes an entry: ErrConflict if there is one.
	Create(ctx context.Context, e *Entry) error
	// Annotate changes annotations; nil takes one away.
	Annotate(ctx context.Context, e *Entry, annotations map[string]any) error
	// SetConditions replaces the conditions of the status.
	SetConditions(ctx context.Context, e *Entry, conditions []any) error
	// Delete takes an entry away. It is no error if it is gone.
	Delete(ctx context.Context, e *Entry) error
}

// ErrConflict says that an entry is not as it was.
var ErrConflict = errors.New("the WorkloadEntry has changed meanwhile")

// Refusal is why a workload cannot be registered, for as long as it and the configuration are as they are.
type Refusal struct {
	Reason string
	// Denied says that the workload may not, rather than that something is missing.
	Denied bool
}

// Error gives the reason.
func (r *Refusal) Error() string { return r.Reason }
