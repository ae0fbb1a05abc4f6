package webhook

import (
	"context"

	"k8s.io/client-go/informers"
)

// informerRunner runs the informers of a factory.
type informerRunner struct {
	factory informers.SharedInformerFactory
}

// Run runs the informers until ctx ends, waits for their end and returns nil.
func (w informerRunner) Run(ctx context.Context) error {
	w.factory.StartWithContext(ctx)
	<-ctx.Done()
	w.factory.Shutdown()
	return nil
}
