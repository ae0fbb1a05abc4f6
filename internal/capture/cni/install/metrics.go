package install

import "github.com/prometheus/client_golang/prometheus"

// Results of an installation, as in Istio.
const (
	succeeded        = "SUCCESS"
	programFailed    = "COPY_BINARIES_FAILURE"
	kubeconfigFailed = "CREATE_KUBECONFIG_FAILURE"
	configFailed     = "CREATE_CNI_CONFIG_FAILURE"
)

// newInstalls returns the counter of installations. It registers the counter, and a gauge of
// whether the plugin is installed, unless to is nil.
func newInstalls(to prometheus.Registerer, ready func() bool) *prometheus.CounterVec {
	installs := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "istio_cni_installs_total", Help: "Installations of the plugin, by result.",
	}, []string{"result"})
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "istio_cni_install_ready", Help: "Whether the plugin is installed: 1 or 0.",
	}, func() float64 {
		if ready() {
			return 1
		}
		return 0
	})
	if to != nil {
		to.MustRegister(installs, gauge)
	}
	return installs
}
