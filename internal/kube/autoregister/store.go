package autoregister

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/model/mesh"

	"context"
	"errors"
)

// Store stores WorkloadEntries. Changes return ErrConflict if the entry changed since it was read.
type Store interface {
	// Get returns an entry, or nil if there is none.
	Get(ctx context.Context, namespace, name string) (*Entry, error)
	// Create creates an entry. It returns ErrConflict if it exists.
	Create(ctx context.Context, e *Entry) error
	// Annotate sets annotations; nil values remove them.
	Annotate(ctx context.Context, e *Entry, annotations map[string]any) error
	// SetConditions replaces the conditions of the status.
	SetConditions(ctx context.Context, e *Entry, conditions []any) error
	// Delete deletes an entry. It returns nil if there is none.
	Delete(ctx context.Context, e *Entry) error
}

// ErrConflict means that the entry changed since it was read.
var ErrConflict = errors.New("the WorkloadEntry was changed concurrently")

// RegistrationError is the reason why a workload cannot be registered until it or the configuration
// changes.
type RegistrationError struct {
	Reason string
	// Denied is true if the workload is not authorized, and false if an object is missing or
	// invalid.
	Denied bool
}

// Error returns the reason.
func (r *RegistrationError) Error() string { return r.Reason }

// StatusError returns a RegistrationError of a proxy as a gRPC status: PermissionDenied if it is
// not authorized, and otherwise FailedPrecondition. It returns any other error, and nil, unchanged.
func StatusError(p *mesh.Proxy, err error) error {
	refused := (*RegistrationError)(nil)
	if !errors.As(err, &refused) {
		return err
	}
	code := codes.FailedPrecondition
	if refused.Denied {
		code = codes.PermissionDenied
	}
	return status.Error(code, "auto-registration of "+p.ID+": "+refused.Reason)
}
