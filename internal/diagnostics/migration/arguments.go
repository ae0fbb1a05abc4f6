package migration

// Arguments returns the flags of pilot-discovery that are not retired, in alphabetical order.
func Arguments() []string {
	return []string{
		"appNamespace", "caCertFile", "caDir", "cloudFoundryBackendTLS", "cloudFoundryCAFile",
		"cloudFoundryCertFile", "cloudFoundryCredentialsFile", "cloudFoundryKeyFile", "cloudFoundryNATS",
		"cloudFoundryNamespace", "cloudFoundryRegion", "cloudFoundryRegisterInterval",
		"cloudFoundrySegments", "cloudFoundryServerName", "cloudFoundryStaleThreshold", "clusterAliases", "clusterID",
		"clusterRegistriesNamespace", "configClients", "configDir", "configPlainText", "consulCAFile",
		"consulCertFile", "consulDatacenter", "consulDomain", "consulKeyFile", "consulNamespace",
		"consulOtherDatacenters", "consulPartition", "consulPeers", "consulQueries", "consulServerName",
		"consulTokenFile", "consulserverInterval", "consulserverURL", "ctrlz_address", "ctrlz_port", "domain",
		"eurekaAuthFile", "eurekaCAFile", "eurekaCertFile", "eurekaDomain", "eurekaInterval", "eurekaKeyFile",
		"eurekaNamespace",
		"eurekaRegion", "eurekaServerName", "eurekaServiceURLs", "grpcAddr", "httpAddr", "httpsAddr", "keepaliveInterval",
		"keepaliveMaxServerConnectionAge", "keepaliveTimeout", "kubeconfig", "kubernetesApiBurst",
		"kubernetesApiQPS", "log_as_json", "log_caller", "log_output_level", "log_rotate",
		"log_stacktrace_level", "log_target", "meshConfig", "mockRegistryDir", "monitoringAddr", "nacosAuthFile",
		"nacosCAFile", "nacosCertFile", "nacosDomain", "nacosGroups", "nacosHoldTime", "nacosInterval",
		"nacosKeyFile", "nacosNamespace", "nacosNamespaceID", "nacosServerName", "nacosServers", "nacosTLS",
		"namespace",
		"networksConfig", "nomadAddresses", "nomadCAFile", "nomadCertFile", "nomadDomain", "nomadKeyFile",
		"nomadNamespaces", "nomadRegion", "nomadServerName", "nomadTokenFile",
		"peers", "profile", "registries", "secretsPlainText", "secureGRPCAddr",
		"shutdownDuration", "tls-cipher-suites", "tls-min-version", "tlsCertFile", "tlsKeyFile",
		"zookeeperAuthFile", "zookeeperCAFile", "zookeeperCertFile", "zookeeperDomain", "zookeeperDubboRoot",
		"zookeeperKeyFile", "zookeeperNamespace", "zookeeperServerName", "zookeeperServers",
		"zookeeperServicesRoot", "zookeeperSessionTimeout", "zookeeperTLS",
	}
}
