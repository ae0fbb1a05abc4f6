package webhook

import (
	"context"

	"k8s.io/client-go/informers"
)

// watch is what a factory's informers see.
type watch struct {
	factory informers.SharedInformerFactory
}

// Run watches until the context ends.
func (w watch) Run(ctx context.Context) error {
	w.factory.StartWithContext(ctx)
	<-ctx.Done()
	w.factory.Shutdown()
	return nil
}
