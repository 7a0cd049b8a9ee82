package hotfix

// For the tests of this package alone.

type (
	Recreation = recreation
	Undoing    = undoing
)

var (
	NamespacedCapability = namespacedCapability
	ServiceName          = serviceName
)
