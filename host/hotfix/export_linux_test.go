package hotfix

// What only the tests of this package see.

type (
	Recreation = recreation
	Undoing    = undoing
)

var (
	NamespacedCapability = namespacedCapability
	ServiceName          = serviceName
)
