"""Where this application is reached, which links to the customer's page begin with."""

from tests.support.world import settings_of


def test_public_url_is_that_of_the_production_deployment_unless_it_is_set() -> None:
    of_vercel = {"VERCEL_ENV": "production", "VERCEL_PROJECT_PRODUCTION_URL": "Shop.vercel.app"}
    own = {"GIFTCARD_PUBLIC_URL": "https://cards.example.com/"}
    assert settings_of(**of_vercel).public_url == "https://shop.vercel.app"
    assert settings_of(**of_vercel, **own).public_url == "https://cards.example.com"
    assert settings_of(**(of_vercel | {"VERCEL_ENV": "preview"})).public_url is None
    assert settings_of().public_url is None
    assert settings_of(GIFTCARD_CUSTOMER_PAGE=1, **of_vercel).giftcard_customer_page
