"""What is wrong with a ScavengerJob that neither schema nor CEL can say, and no cluster is needed to know. Pure."""
