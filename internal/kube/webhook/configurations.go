package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/retry"
)

// injectorName is the suffix of the names of injection webhooks.
const injectorName = "sidecar-injector.istio.io"

// The rate limit of writes to one configuration, and the backoff after errors.
const (
	writeBurst    = 5
	writeInterval = time.Minute
	minRetryDelay = 100 * time.Millisecond
	maxRetryDelay = time.Minute
)

// Configurations maintains the webhook configurations of one revision: the caBundle for the
// server's certificate, and failurePolicy Fail for validation once it works. All replicas run it;
// they write the same content, so only the first one writes.
//
// Configurations are selected by the label istio.io/rev, whatever their name,
// so that configurations of revision tags are included.
type Configurations struct {
	Client   kubernetes.Interface
	Revision string
	// Injection and Validation select which kinds of configurations are maintained.
	Injection, Validation bool
	// CABundle returns the roots of the server's certificate in PEM, and a channel that is closed
	// when they change. They are empty while there is no certificate.
	CABundle func() (pem []byte, changed <-chan struct{})
	// ProbeValidation tests validation, see [NewValidationProbe]. If nil, failurePolicies are not
	// changed.
	ProbeValidation func(context.Context, *admissionregistrationv1.ValidatingWebhookConfiguration) error
	Metrics         *obs.WebhookMetrics
	Log             *slog.Logger

	// limits are the rate limiters of writes per configuration.
	limits map[string]*rate.Limiter
	// validationWorks is true once the probe succeeded.
	validationWorks bool
}

// Run maintains the configurations with the label of the revision until ctx ends, for injection,
// validation or both. It returns an error if an informer cannot be set up or, with a
// recovery.Recorder in ctx, the reconciliation panics. Failed requests are logged and retried.
func (c *Configurations) Run(ctx context.Context) error {
	c.limits = map[string]*rate.Limiter{}
	factory := informers.NewSharedInformerFactoryWithOptions(
		c.Client,
		0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = label.IoIstioRev.Name + "=" + c.Revision
		}),
	)
	changed := notify.NewWake()
	var mutating, validating cache.SharedIndexInformer
	if c.Injection {
		mutating = factory.Admissionregistration().V1().MutatingWebhookConfigurations().Informer()
		if err := c.watchConfigurations(mutating, "mutatingwebhookconfigurations", changed); err != nil {
			return err
		}
	}
	if c.Validation {
		validating = factory.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
		if err := c.watchConfigurations(validating, "validatingwebhookconfigurations", changed); err != nil {
			return err
		}
	}
	factory.StartWithContext(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		factory.Shutdown()
		return nil
	})
	group.Go(func() error {
		return recovery.Call(
			ctx,
			"task",
			func() error { c.reconcileLoop(ctx, changed, mutating, validating); return nil },
			"task",
			"webhook configurations",
		)
	})
	return group.Wait()
}

// watchErrorInterval is the minimum time between logs of the same error.
const watchErrorInterval = 10 * time.Minute

// watchConfigurations notifies changed when a configuration is added or updated, and logs watch
// errors, repeated ones at most once per watchErrorInterval. The informer retries by itself; until
// it succeeds the configurations are not maintained.
func (c *Configurations) watchConfigurations(
	informer cache.SharedIndexInformer,
	resource string,
	changed notify.Wake,
) error {
	var last string
	var logged time.Time
	// never called concurrently
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if text := err.Error(); text != last || time.Since(logged) >= watchErrorInterval {
			last, logged = text, time.Now()
			c.Log.Warn(
				"cannot watch "+resource+"; their CA bundles and failure policies are not maintained, retrying",
				"err", err,
			)
		}
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", resource, err)
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed.Notify() }, UpdateFunc: func(any, any) { changed.Notify() },
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", resource, err)
	}
	return nil
}

// reconcileLoop reconciles all configurations at once, and again when one changes, when the roots
// change, when the rate limit allows a delayed write, and after errors, which are logged, with a
// backoff. Without a CA bundle it only waits. It returns when ctx ends.
func (c *Configurations) reconcileLoop(
	ctx context.Context,
	changed notify.Wake,
	mutating, validating cache.SharedIndexInformer,
) {
	backoff := retry.NewBackoff(minRetryDelay, maxRetryDelay)
	for {
		// Read the configurations before the roots. Otherwise this replica could revert the write
		// of a replica with newer roots. Writes after that are refused (webhooksPatch).
		mutatingNow, validatingNow := listObjects(mutating), listObjects(validating)
		bundle, bundleChanged := c.CABundle()
		var wait <-chan time.Time
		if len(bundle) > 0 {
			again, err := c.reconcileAll(ctx, bundle, mutatingNow, validatingNow)
			switch {
			case err != nil && ctx.Err() == nil:
				again = backoff.NextBackOff()
				c.Log.Warn("updating webhook configurations failed, retrying", "err", err, "in", again)
			case err == nil:
				backoff.Reset()
			}
			if again > 0 {
				wait = time.After(again)
			}
		}
		select {
		case <-changed.C():
		case <-bundleChanged:
		case <-wait:
		case <-ctx.Done():
			return
		}
	}
}

// listObjects returns the cached objects, or nil without an informer.
func listObjects(informer cache.SharedIndexInformer) []any {
	if informer == nil {
		return nil
	}
	return informer.GetStore().List()
}

// reconcileAll reconciles the given configurations, all of them even after an error. It returns the
// joined errors, and the shortest time after which a write that the rate limit delayed may be
// retried, or 0 if there is none. Objects of other types are skipped.
func (c *Configurations) reconcileAll(
	ctx context.Context,
	bundle []byte,
	mutating, validating []any,
) (again time.Duration, err error) {
	var errs []error
	soon := func(d time.Duration) {
		if d > 0 && (again == 0 || d < again) {
			again = d
		}
	}
	for _, object := range mutating {
		if m, ok := object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
			d, err := c.reconcileInjection(ctx, m, bundle)
			soon(d)
			errs = append(errs, err)
		}
	}
	for _, object := range validating {
		if v, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
			d, err := c.reconcileValidation(ctx, v, bundle)
			soon(d)
			errs = append(errs, err)
		}
	}
	return again, errors.Join(errs...)
}

// reconcileInjection sets the caBundle of the webhooks of m whose name ends with injectorName,
// where it differs, and counts the attempt. It returns how long to wait if the rate limit delays
// the write, else 0. A configuration that was deleted or changed since m was read is ignored: the
// change notifies reconcileLoop. Another failure is counted and returned.
func (c *Configurations) reconcileInjection(
	ctx context.Context,
	m *admissionregistrationv1.MutatingWebhookConfiguration,
	bundle []byte,
) (time.Duration, error) {
	var part []map[string]any
	for _, w := range m.Webhooks {
		if strings.HasSuffix(w.Name, injectorName) && !bytes.Equal(w.ClientConfig.CABundle, bundle) {
			part = append(part, map[string]any{"name": w.Name, "clientConfig": map[string]any{"caBundle": bundle}})
		}
	}
	if len(part) == 0 {
		return 0, nil
	}
	if d := c.reserveWrite(m.Name); d > 0 {
		return d, nil
	}
	c.Metrics.Patches.WithLabelValues(injectorName).Inc()
	_, err := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().
		Patch(ctx, m.Name, types.StrategicMergePatchType, webhooksPatch(m.ResourceVersion, part), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return 0, nil
	}
	if err != nil {
		c.Metrics.PatchFailures.WithLabelValues(m.Name, "webhook_update_failure").Inc()
		c.Metrics.PatchRetries.WithLabelValues(m.Name).Inc()
		return 0, fmt.Errorf("patch MutatingWebhookConfiguration %q: %w", m.Name, err)
	}
	c.Log.Info("updated the CA bundle of the injection webhook", "configuration", m.Name)
	return 0, nil
}

// reconcileValidation sets the caBundle of all webhooks of v, where it differs. If all are right
// and a failurePolicy is Ignore, it sets Fail for all once ProbeValidation has succeeded; if that
// is nil, it does nothing. It returns how long to wait if the rate limit delays the write, else 0.
// It returns an error if the probe or the write fails.
func (c *Configurations) reconcileValidation(
	ctx context.Context,
	v *admissionregistrationv1.ValidatingWebhookConfiguration,
	bundle []byte,
) (time.Duration, error) {
	var part []map[string]any
	open := false
	for _, w := range v.Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, bundle) {
			part = append(part, map[string]any{"name": w.Name, "clientConfig": map[string]any{"caBundle": bundle}})
		}
		open = open || w.FailurePolicy != nil && *w.FailurePolicy != admissionregistrationv1.Fail
	}
	if len(part) > 0 {
		return c.patchValidation(ctx, v, part, "updated the CA bundle of the validation webhook")
	}
	if !open || c.ProbeValidation == nil {
		return 0, nil
	}
	if !c.validationWorks {
		if err := c.ProbeValidation(ctx, v); err != nil {
			return 0, fmt.Errorf("%q stays with failurePolicy Ignore: %w", v.Name, err)
		}
		c.validationWorks = true
	}
	for _, w := range v.Webhooks {
		part = append(part, map[string]any{"name": w.Name, "failurePolicy": admissionregistrationv1.Fail})
	}
	return c.patchValidation(ctx, v, part, "validation works; set failurePolicy Fail")
}

// patchValidation patches a configuration, counts that and logs the message done. A configuration
// that was deleted or changed since v was read is ignored: the change notifies reconcileLoop.
// Another failure is counted and returned. If the rate limit delays the write, it writes nothing
// and returns how long to wait, else 0.
func (c *Configurations) patchValidation(
	ctx context.Context,
	v *admissionregistrationv1.ValidatingWebhookConfiguration,
	part []map[string]any,
	done string,
) (time.Duration, error) {
	if d := c.reserveWrite(v.Name); d > 0 {
		return d, nil
	}
	_, err := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Patch(ctx, v.Name, types.StrategicMergePatchType, webhooksPatch(v.ResourceVersion, part), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return 0, nil
	}
	if err != nil {
		c.Metrics.ConfigErrors.WithLabelValues(string(apierrors.ReasonForError(err))).Inc()
		return 0, fmt.Errorf("patch ValidatingWebhookConfiguration %q: %w", v.Name, err)
	}
	c.Metrics.ConfigUpdates.Inc()
	c.Log.Info(done, "configuration", v.Name)
	return 0, nil
}

// reserveWrite returns how long to wait before the configuration may be written, or 0 and takes a
// token from its rate limiter. Exhaustion is logged, because another writer must be reverting the
// writes.
func (c *Configurations) reserveWrite(name string) time.Duration {
	l := c.limits[name]
	if l == nil {
		l = rate.NewLimiter(rate.Every(writeInterval), writeBurst)
		c.limits[name] = l
	}
	r := l.Reserve()
	d := r.Delay()
	if d > 0 {
		r.Cancel()
		c.Log.Warn(
			"another writer keeps changing this webhook configuration, perhaps a second control plane of this revision",
			"configuration", name,
			"wait", d,
		)
	}
	return d
}

// webhooksPatch returns a strategic merge patch. It merges webhooks by name, so that other fields
// are preserved. The API server refuses it with a conflict if the object has another resource
// version than resourceVersion, so that a replica does not revert the write of a replica with newer
// roots.
func webhooksPatch(resourceVersion string, part []map[string]any) []byte {
	b, _ := json.Marshal(map[string]any{ // strings and bytes always encode
		"metadata": map[string]any{"resourceVersion": resourceVersion}, "webhooks": part,
	})
	return b
}
